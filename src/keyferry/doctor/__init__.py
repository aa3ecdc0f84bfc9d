"""The health of a node at a glance: facts are gathered once, and pure checks turn them into lines."""
