"""The credential helper of docker's tools, and its installation."""
