"""What client-go refuses only when it connects: certificate authorities and client certificates that cannot be used.

The file itself is accepted, so these are warnings.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.clock import time_ns
from keyferry._net.url import parse_url
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Kubeconfig
from keyferry.api.meta import format_time
from keyferry.clusters.auth.pem import find_blocks, parse_key_pair
from keyferry.clusters.kubeconfig.files import KubeconfigFile, place
from keyferry.clusters.tls import check_authorities
from keyferry.errors import ClusterAuthError, EnvironmentProblem, Problem

__all__ = ["check_transports"]

_CONTRADICTION, _NO_AUTHORITY, _NO_PAIR, _EXPIRED = "KF263", "KF289", "KF287", "KF288"
_AUTHORITY, _AUTHORITY_DATA = "certificate-authority", "certificate-authority-data"
_LARGEST_FILE = 16 << 20
_Found = tuple[str, Problem]


def check_transports(file: KubeconfigFile, config: Kubeconfig) -> Iterator[Problem]:
    """Yield the problems of all clusters and users of *file*; *config* has the paths as client-go opens them."""
    for name, cluster in config.clusters.items():
        for field, problem in _check_cluster(cluster):
            yield place((file,), file.path, ("clusters", name), (field,), problem)
    for name, user in config.users.items():
        for field, problem in _check_user(user):
            yield place((file,), file.path, ("users", name), (field,), problem)


def _check_cluster(cluster: Cluster) -> Iterator[_Found]:
    url = parse_url(cluster.server)
    if url is None or url.scheme != "https" or not url.host:
        return  # client-go makes no TLS connection
    field = _AUTHORITY_DATA if cluster.certificate_authority_data else _AUTHORITY
    data = cluster.certificate_authority_data or _read(cluster.certificate_authority)
    if cluster.insecure_skip_tls_verify and (data or cluster.certificate_authority):
        yield "insecure-skip-tls-verify", _contradiction()
    elif data:
        yield from ((field, problem) for problem in _check_authority(data))


def _contradiction() -> Problem:
    message = (
        "client-go refuses to connect if a certificate authority is also set: "
        "specifying a root certificates file with the insecure flag is not allowed; remove this field"
    )
    return Problem("", message, code=_CONTRADICTION)


def _check_authority(data: bytes) -> Iterator[Problem]:
    try:
        check_authorities(data)
    except ClusterAuthError:
        pass
    else:
        return
    types = [kind for kind, _ in find_blocks(data.decode("utf-8", "surrogateescape"))]
    reason, what = "no valid certificate authority data seen", "has no certificate"
    if not types:
        reason, what = "unable to parse bytes as PEM block", "is not PEM"
    elif "CERTIFICATE" in types:
        reason, what = "failed to parse certificate", "has a certificate that cannot be parsed"
    message = (
        f"the certificate authority {what}, and client-go refuses to connect: unable to load root certificates: "
        f"{reason}; set certificates in PEM form"
    )
    yield Problem("", message, code=_NO_AUTHORITY)


def _check_user(user: AuthInfo) -> Iterator[_Found]:
    certificate = user.client_certificate_data or _read(user.client_certificate)
    key = user.client_key_data or _read(user.client_key)
    field = "client-certificate-data" if user.client_certificate_data else "client-certificate"
    if certificate and key:
        yield from ((field, problem) for problem in _check_pair(certificate, key))


def _check_pair(certificate: bytes, key: bytes) -> Iterator[Problem]:
    try:
        pair = parse_key_pair(certificate.decode("utf-8", "replace"), key.decode("utf-8", "replace"))
    except ClusterAuthError as error:
        yield Problem("", f"client-go cannot connect with it: {error.message}", code=_NO_PAIR)
    except EnvironmentProblem:
        return  # certificates can only be parsed with keyferry[crypto]
    else:
        if pair.not_after_ns < time_ns():
            message = f"the certificate expired on {format_time(pair.not_after_ns)}; obtain a new one"
            yield Problem("", message, code=_EXPIRED)


def _read(path: str) -> bytes:
    """Return the content of a file; empty if it cannot be read, which is reported elsewhere."""
    if not path:
        return b""
    try:
        with open(path, "rb") as stream:
            return stream.read(_LARGEST_FILE)
    except (OSError, ValueError):
        return b""
