"""``python -m keyferry`` is the command line."""

from __future__ import annotations

from keyferry.cli.main import run

if __name__ == "__main__":
    run()
