"""A command-conditioned world model for machine tools that keeps working on machines with other sensors."""

import os

__version__ = "0.2.0"

# Threads that wait must not spin: beside one other busy process that makes a forecast five times slower. Read when the
# library of threads is loaded, so it stands before everything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
