"""How good each model is after so many minutes of a machine's own logs."""
