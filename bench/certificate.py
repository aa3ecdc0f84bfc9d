"""A self-signed certificate for a benchmark server on loopback."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def make_certificate(folder: str, *hosts: str) -> tuple[str, str]:
    """Write the certificate and its key into *folder*, for 127.0.0.1 and *hosts*; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, hosts)]
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = signed.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    paths = os.path.join(folder, "server.crt"), os.path.join(folder, "server.key")
    for path, data in zip(paths, (certificate, private), strict=True):
        with open(path, "wb") as stream:
            stream.write(data)
    return paths
