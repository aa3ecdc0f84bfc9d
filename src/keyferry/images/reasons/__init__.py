"""The reasons for an answer."""
