"""Rules for provider configs."""
