"""What a forecast is, the two networks behind one encode and one decode, and the model file."""
