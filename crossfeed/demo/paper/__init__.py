"""The paper from raw logs to a page that puts every published number beside the one just made, chapter by chapter."""
