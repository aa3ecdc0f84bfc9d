"""Run a program: start it, serve its pipes, limit it, terminate it and collect its exit status."""
