"""A conformance checker for tables, splits, normalisers, windows and pipelines; each finding says what to do."""
