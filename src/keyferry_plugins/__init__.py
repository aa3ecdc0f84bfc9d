"""Reference credential plugins, one executable each, built only on ``keyferry.sdk`` and the standard library."""
