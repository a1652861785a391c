"""How results look on a terminal: the rooms return data, these modules make tables and sentences of it."""
