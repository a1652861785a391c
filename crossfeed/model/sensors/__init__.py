"""The network of the `crossfeed` preset: one token for each sensor, one query for each forecast."""
