"""``python -m keyferry`` is the command line."""

from keyferry.cli.main import run

if __name__ == "__main__":
    run()
