"""Completion scripts for bash, zsh and fish: ``keyferry completion``."""
