"""What all commands share: arguments, sources, output."""
