"""Why: the reasons behind an answer, for people and for programs."""
