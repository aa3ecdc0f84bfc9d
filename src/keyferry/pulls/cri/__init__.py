"""A client of container runtimes, over the CRI."""
