"""One module per part of the report; each gives its sections, or none where nothing was recorded."""
