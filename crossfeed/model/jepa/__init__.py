"""The paper's network and its objective: Sections 3 and 4, one part a file; begin with `model.py`."""
