"""What is told of a cluster's user, and what is left out."""
