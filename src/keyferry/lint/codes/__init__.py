"""The codes of lint: what each finding means and what to do."""
