"""Adapting a trained forecaster to a new machine with nothing it could not have known."""
