"""The codes of the conformance kit: what each check requires, and why."""
