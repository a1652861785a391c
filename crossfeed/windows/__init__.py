"""From a table to what a model reads: group-disjoint split, normaliser of the train rows, windows, masks; audits."""
