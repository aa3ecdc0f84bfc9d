"""Corrections of problems that have one right answer, made in the text of the file."""
