"""The checks of a node: each is a function of facts that returns the lines of one section."""
