"""The demo: the whole story in some minutes, chapter by chapter, on simulated machines or on real logs."""
