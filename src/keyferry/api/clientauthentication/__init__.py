"""What an exec credential plugin for clusters is told, and what it answers."""
