"""The codes of lint: the meaning of each finding and how to correct it."""
