"""Output for terminals and documents for programs. It does not depend on the values of other packages."""
