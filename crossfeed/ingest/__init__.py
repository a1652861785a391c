"""Raw logs become one canonical table: units, segmentation, causal resampling, Parquet and manifest."""
