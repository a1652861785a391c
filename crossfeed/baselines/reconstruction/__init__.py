"""Six ways to pretrain by reconstruction; each hides and rebuilds something else, then learns to forecast."""
