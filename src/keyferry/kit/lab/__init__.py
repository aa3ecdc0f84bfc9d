"""Experiments with a plugin: requests, runs under observation, and the evidence."""
