"""Commands for plugin authors: ``keyferry plugin``."""
