"""Everything a user would pick instead of the world model, behind one door, on the same windows, with the same care."""
