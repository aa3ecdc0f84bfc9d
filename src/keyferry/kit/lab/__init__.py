"""Experiments with a plugin: what it is asked, how it is run and watched, the evidence."""
