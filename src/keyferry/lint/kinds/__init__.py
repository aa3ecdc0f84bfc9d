"""The kinds of files that lint knows: one module each, with its codes and, beside them, its rules."""
