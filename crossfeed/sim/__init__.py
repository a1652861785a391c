"""A simulated world on its own side: physics of machines, a factory of machines, parts and people, live servers."""
