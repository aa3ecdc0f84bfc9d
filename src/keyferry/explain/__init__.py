"""The reasons for a lookup's answer, as text for people and as documents for programs."""
