"""Run a program: start it, feed it, bound it, end it and collect it."""
