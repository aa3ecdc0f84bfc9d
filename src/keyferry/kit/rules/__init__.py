"""What the evidence must show."""
