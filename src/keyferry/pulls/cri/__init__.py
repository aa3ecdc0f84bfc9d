"""A container runtime, over CRI."""
