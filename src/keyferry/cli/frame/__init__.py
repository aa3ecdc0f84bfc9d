"""Code that all commands share: arguments, sources, output."""
