"""How results look on a terminal: the rooms return tables, these modules print them with a sentence or two."""
