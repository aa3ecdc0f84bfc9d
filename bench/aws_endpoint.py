"""A fake AWS endpoint in its own process: answers GetAuthorizationToken, over plain HTTP or behind a CONNECT.

It prints its port, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import socket
import ssl
import sys
import threading

_REGISTRY = "https://123456789012.dkr.ecr.us-east-1.amazonaws.com"
_TOKEN = base64.b64encode(b"AWS:made-up").decode()
_BODY = json.dumps(
    {
        "authorizationData": [
            {"authorizationToken": _TOKEN, "expiresAt": 4_000_000_000, "proxyEndpoint": _REGISTRY}
        ]
    }
).encode()
_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
_ANSWER = _HEAD.format(len(_BODY)).encode() + _BODY


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("certificate", "key"):
        parser.add_argument(name)
    args = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.certificate, args.key)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, context), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


def _accept(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(client, context), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext) -> None:
    # A client that goes away in between is no concern of the measurement.
    with contextlib.suppress(OSError, ValueError), client:
        if _read(client).startswith(b"CONNECT "):
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with context.wrap_socket(client, server_side=True) as inside:
                _read(inside)
                inside.sendall(_ANSWER)
        else:
            client.sendall(_ANSWER)


def _read(stream: socket.socket) -> bytes:
    """Read one request with its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = stream.recv(65536)
        if not more:
            raise ValueError
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += stream.recv(65536)
    return head


if __name__ == "__main__":
    main()
