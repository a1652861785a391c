"""A command-conditioned world model for machine tools that keeps working on machines with other sensors."""

__version__ = "0.1.0"
