"""``keyferry lint``: its arguments, its output formats and its corrections."""
