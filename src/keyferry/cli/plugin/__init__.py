"""Commands for authors of plugins: ``keyferry plugin``."""
