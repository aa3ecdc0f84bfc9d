"""The codes of the conformance kit: what each check demands, and why."""
