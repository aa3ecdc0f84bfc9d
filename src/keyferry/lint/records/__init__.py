"""Rules for folders of pull records."""
