"""Reference credential plugins, one executable each, built on ``keyferry.sdk`` and the standard library alone."""
