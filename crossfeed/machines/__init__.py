"""Where logs come from: one small module per kind of log, and `simulated`, a machine whose physics we know."""
