"""Start a program, bound it, and share what it answers."""
