"""TLS towards a cluster: keys stay in memory, and each connection has the certificate of the moment."""

from __future__ import annotations

import fcntl
import os
import ssl
import stat
import sys
from collections.abc import Callable

import pytest
from cryptography.x509.oid import NameOID

from keyferry.clusters.tls import ClusterContext, Pair, load_pair
from keyferry.errors import ClusterAuthError
from support.certificates import Authority, key_pem, make_certificate, make_key

linux = pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux'")


AUTHORITY = Authority()
HOST = "k.example"


def pair(kind: str = "ec", name: str = "user") -> Pair:
    key = make_key(kind)
    return make_certificate(key, [(NameOID.COMMON_NAME, name)]), key_pem(key)


def server(
    *clients: Pair, host: str = HOST, authority: Authority = AUTHORITY, **settings: object
) -> ssl.SSLContext:
    """A server, which asks for a certificate if it knows some."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = authority.server(host)
    load_pair(context, own.certificate, own.key)
    if clients:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata="".join(certificate for certificate, _ in clients))
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def shake(client: ssl.SSLContext, server_context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory: the client's end and the server's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=HOST)
    theirs = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = {ours, theirs}
    for _ in range(20):
        for end in tuple(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.discard(end)
        if not waiting:
            return ours, theirs
    raise AssertionError("the handshake does not end")


def cluster(
    pair: Callable[[], tuple[int, Pair | None]] = lambda: (0, None), ca: bytes = AUTHORITY.pem.encode()
) -> ClusterContext:
    return ClusterContext.make(ca=ca, insecure=False, server_name="", pair=pair)


def shown_certificate(end: ssl.SSLObject) -> str:
    der = end.getpeercert(binary_form=True)
    return ssl.DER_cert_to_PEM_cert(der) if der else ""


def as_pem(certificate: str) -> str:
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(certificate))


# Who is believed


def test_what_a_client_library_sets_is_taken_over() -> None:
    """ALPN, and checks that are turned off or on again between two connections."""
    serving = server(host="other.example")
    serving.set_alpn_protocols(["h2", "http/1.1"])
    client = cluster()
    client.set_alpn_protocols(["http/1.1"])
    client.check_hostname = False
    assert shake(client, serving)[0].selected_alpn_protocol() == "http/1.1"
    client.set_alpn_protocols(["h2"])
    assert shake(client, serving)[0].selected_alpn_protocol() == "h2"
    client.check_hostname = True
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(client, serving)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    shake(client, server(authority=Authority()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_not_spoken() -> None:
    old = server(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError):
        shake(cluster(), old)


@pytest.mark.parametrize("ca", [b"x", b"\xff", "ä".encode()])
def test_an_authority_that_is_none_is_an_error(ca: bytes) -> None:
    with pytest.raises(
        ClusterAuthError, match="certificate-authority contains no valid PEM certificate"
    ) as caught:
        cluster(ca=ca)
    assert caught.value.kubernetes_text == "unable to load root certificates"


# Who we are


def test_a_new_number_is_a_new_certificate_for_connections_to_come() -> None:
    first, second = pair(name="first"), pair(name="second")
    serving = server(first, second)
    now: list[tuple[int, Pair | None]] = [(0, first)]
    context = cluster(lambda: now[0])
    one, seen = shake(context, serving)
    assert shown_certificate(seen) == as_pem(first[0])
    now[0] = (0, second)
    again, seen = shake(context, serving)
    assert again.context is one.context
    assert shown_certificate(seen) == as_pem(first[0])
    now[0] = (1, second)
    other, seen = shake(context, serving)
    assert other.context is not one.context
    assert shown_certificate(seen) == as_pem(second[0])
    now[0] = (2, None)
    assert shown_certificate(shake(context, serving)[1]) == ""


# Where the key is meanwhile


class Watched(ssl.SSLContext):
    """A context that looks at the file it is given before it loads it."""

    look: Callable[[str], None]

    def load_cert_chain(self, certfile: str, *, password: Callable[[], str]) -> None:  # type: ignore[override] # as it is called
        """Look, then load."""
        self.look(certfile)
        super().load_cert_chain(certfile, password=password)


@linux
def test_the_key_is_in_a_sealed_nameless_file_that_is_closed_at_once() -> None:
    seen: list[tuple[int, os.stat_result]] = []

    def look(path: str) -> None:
        fd = int(path.rpartition("/")[2])
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        for seal in (fcntl.F_SEAL_WRITE, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_SEAL):
            assert seals & seal
        assert os.readlink(path).startswith("/memfd:")
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        with pytest.raises(PermissionError):
            os.write(fd, b"x")
        seen.append((fd, os.fstat(fd)))

    context = Watched(ssl.PROTOCOL_TLS_CLIENT)
    context.look = look
    before = set(os.listdir("/proc/self/fd"))
    load_pair(context, *pair())
    ((fd, status),) = seen
    assert stat.S_ISREG(status.st_mode)
    assert status.st_nlink == 0
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@linux
def test_the_file_is_closed_though_the_pair_is_refused() -> None:
    (certificate, _), (_, key) = pair(), pair()
    before = os.listdir("/proc/self/fd")
    for cert, private in ((certificate, key), (certificate, "no key"), ("", ""), (key, certificate)):
        with pytest.raises(ClusterAuthError, match="cannot be used") as caught:
            load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert, private)
        assert caught.value.__context__ is None
        assert "PRIVATE" not in f"{caught.value} {caught.value.args}"
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture(params=[True, False], ids=["memory", "pipes"])
def _keys_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a key is while it is loaded: in memory, or in pipes, as on systems without files there."""
    if not request.param:
        monkeypatch.delattr(os, "memfd_create")


@linux
@pytest.mark.usefixtures("_keys_in")
@pytest.mark.parametrize("kind", ["ec", "rsa", "ed25519"])
def test_the_server_sees_the_client_certificate(kind: str) -> None:
    """Also of a pair that is larger than a pipe."""
    certificate, key = pair(kind)
    large = certificate + "# padding\n" * 20_000
    before = len(os.listdir("/proc/self/fd"))
    _, theirs = shake(cluster(lambda: (0, (large, key))), server((certificate, key)))
    assert shown_certificate(theirs) == as_pem(certificate)
    assert len(os.listdir("/proc/self/fd")) <= before


@linux
@pytest.mark.usefixtures("_keys_in")
@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_an_encrypted_key_is_refused_whichever_way_it_is_read(form: str) -> None:
    key = make_key()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ClusterAuthError, match="is encrypted, expected PEM without a passphrase"):
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), make_certificate(key), key_pem(key, form, "pass"))
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_authority_beside_what_cannot_be_read_is_trusted_as_in_go() -> None:
    """Text in any encoding, other blocks, a block with headers, one that holds no certificate."""
    own = AUTHORITY.pem
    with_header = own.replace("-----\n", "-----\nSubject: x\n\n", 1)
    broken = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"
    ca = b"\xff caf\xc3\xa9\n" + (with_header + broken + key_pem(make_key()) + own).encode()
    shake(cluster(ca=ca), server())
    with pytest.raises(ClusterAuthError, match="certificate-authority contains no valid PEM certificate"):
        cluster(ca=(with_header + broken).encode())
