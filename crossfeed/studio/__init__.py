"""API and page beside the machine: what the model says, in a browser and to programs; nothing is sent to a machine."""
