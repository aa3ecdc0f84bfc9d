"""A stand-in for AWS in a process of its own: answers GetAuthorizationToken, in the clear or behind a CONNECT.

python bench/aws_endpoint.py FOLDER    leaves aws.pem there, prints its port, and ends with its standard input
"""

import base64
import contextlib
import json
import os
import socket
import ssl
import sys
import threading
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_HOSTS = ("api.ecr.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com")

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


def main(folder: str) -> None:
    """Serve until nobody holds standard input any more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_make_certificate(folder))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, context), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


def _make_certificate(folder: str) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in _HOSTS])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    paths = os.path.join(folder, "aws.pem"), os.path.join(folder, "aws.key")
    form = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, data in zip(paths, (signed.public_bytes(Encoding.PEM), form), strict=True):
        with open(path, "wb") as stream:
            stream.write(data)
    return paths


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
    """One request, its body included."""
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
    main(sys.argv[1])
