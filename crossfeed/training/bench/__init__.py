"""What a training step costs on this machine."""
