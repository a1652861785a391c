"""A simulated machine behind real protocol servers on the loopback address, with faults on request."""
