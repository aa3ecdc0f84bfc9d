#!/opt/keyferry/bin/python -IS
"""Ask the agent in this container whether it lives or is ready; the answer is the exit status. There is no shell here.

``keyferry-probe live`` and ``keyferry-probe ready`` ask ``/v1/health`` and ``/v1/ready`` over the socket that
KEYFERRY_AGENT names. Neither depends on a registry, a cloud or the last reload.
"""

from __future__ import annotations

import os
import socket
import sys

SECONDS = 4.0
PATHS = {"live": "/v1/health", "ready": "/v1/ready"}


def main() -> None:
    """Exit with 0 if the agent says yes, 1 if it does not, and 2 for wrong usage."""
    if len(sys.argv) != 2 or sys.argv[1] not in PATHS:
        sys.exit("usage: keyferry-probe live|ready")
    try:
        line = ask(os.environ.get("KEYFERRY_AGENT", ""), PATHS[sys.argv[1]])
    except OSError as error:
        sys.exit(f"keyferry-probe: the agent does not answer: {(error.strerror or 'in time').lower()}")
    if not line.startswith(b"HTTP/1.1 200 "):
        sys.exit("keyferry-probe: not ready")


def ask(place: str, path: str) -> bytes:
    """Return the beginning of the agent's answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(place)
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: keyferry-agent\r\nConnection: close\r\n\r\n".encode()
        )
        return connection.recv(64)


if __name__ == "__main__":
    main()
