"""How a container runtime connects to a host: the authorities, client certificates and headers that its files name."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from keyferry._core.values import Value, field
from keyferry.pulls.mirrors.toml_files import Table, TomlProblem, open_now, subtable, under

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

__all__ = ["HostTrust", "TrustProblem", "add_trust", "certificate_files", "read_trust"]

_MOST_BYTES = 1 << 20
# A header line of an encrypted PEM block: OpenSSL would ask for a pass phrase on the terminal.
_ENCRYPTED = b"Proc-Type:"
# Go's HTTP client sets these itself, and keyferry reads no compressed answer.
_UNSENT = ("host", "trailer", "accept-encoding", "content-length", "transfer-encoding", "connection")


class TrustProblem(Exception):
    """Why a file of certificates or keys cannot be used, as text that names it."""


class HostTrust(Value):
    """The TLS settings and headers for requests to one host, and to no other.

    *ca_files* are trusted in addition to the system's authorities. A client pair is a certificate and its key, which is
    empty if the certificate's file has it. With *accepts_any*, any certificate of the server is trusted. *problem* is
    what keeps the runtime from using the settings at all.
    """

    ca_files: tuple[str, ...] = ()
    client_pairs: tuple[tuple[str, str], ...] = ()
    accepts_any: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    problem: str = ""

    @property
    def sets_tls(self) -> bool:
        """Whether a setting of TLS was made."""
        return bool(self.ca_files or self.client_pairs or self.accepts_any)

    @property
    def has_login(self) -> bool:
        """Whether a header holds a login."""
        return any(name.lower() == "authorization" for name, _ in self.headers)


def read_trust(file: str, settings: Table, root: str = "/") -> HostTrust:
    """Return the settings of a host in *file*, a hosts.toml; a relative path is relative to its folder.

    Raise TomlProblem for settings of a wrong type, for which containerd ignores the file.
    """
    folder = os.path.dirname(file)

    def resolve(path: str) -> str:
        return under(root, path) if os.path.isabs(path) else os.path.join(folder, path)

    ca = settings.get("ca", [])
    listed = [ca] if isinstance(ca, str) else ca
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TomlProblem(file, "ca is not a path or a list of paths, so containerd ignores the file")
    client = settings.get("client", [])
    pairs = [client] if isinstance(client, str) else client
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        raise TomlProblem(
            file, "client is not a path or a list of paths or pairs, so containerd ignores the file"
        )
    both = [(each, "") if isinstance(each, str) else (each[0], each[1]) for each in pairs]
    return HostTrust(
        ca_files=tuple(map(resolve, listed)),
        client_pairs=tuple((resolve(certificate), key and resolve(key)) for certificate, key in both),
        accepts_any=settings.get("skip_verify") is True,
        headers=tuple(_headers(file, subtable(settings, "header"))),
    )


def _is_pair(value: object) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and all(isinstance(each, str) for each in value)
    return isinstance(value, str)


def _headers(file: str, table: Table) -> list[tuple[str, str]]:
    found = []
    for name, value in table.items():
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise TomlProblem(file, f"header {name!r} is not text, so containerd ignores the file")
        if name.lower() not in _UNSENT:
            found += [(name, each) for each in listed]
    return found


def certificate_files(folder: str, *, are_paired: bool) -> HostTrust:
    """Return the ``*.crt``, ``*.cert`` and ``*.key`` files of a folder, as Docker lays them out.

    A certificate without a key may hold the key itself, as in containerd, unless *are_paired*, as in CRI-O.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return HostTrust()
    except OSError as error:
        return HostTrust(problem=f"{folder!r} cannot be read: {error.strerror}")
    authorities = [os.path.join(folder, name) for name in names if name.endswith(".crt")]
    certificates = [name.removesuffix(".cert") for name in names if name.endswith(".cert")]
    keys = [name.removesuffix(".key") for name in names if name.endswith(".key")]
    alone = sorted(set(certificates) ^ set(keys)) if are_paired else []
    if alone:
        return HostTrust(
            problem=f"{folder!r} has one of {alone[0]}.cert and {alone[0]}.key without the other"
        )
    pairs = [(f"{name}.cert", f"{name}.key" if name in keys else "") for name in certificates]
    return HostTrust(
        ca_files=tuple(authorities),
        client_pairs=tuple(
            (os.path.join(folder, cert), key and os.path.join(folder, key)) for cert, key in pairs
        ),
    )


def add_trust(context: ssl.SSLContext, trust: HostTrust) -> None:
    """Make a TLS context connect as *trust* says; raise TrustProblem for a file that cannot be used."""
    import ssl

    if trust.problem:
        raise TrustProblem(trust.problem)
    for file in trust.ca_files:
        data = _read(file)
        try:
            if _ENCRYPTED in data:
                raise ValueError
            # Comments between the certificates may be in any language.
            context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
        except (OSError, ValueError):
            raise TrustProblem(f"{file!r} cannot be read as certificates in PEM") from None
    _add_client_pairs(context, trust.client_pairs)
    if trust.accepts_any:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE


def _add_client_pairs(context: ssl.SSLContext, pairs: Sequence[tuple[str, str]]) -> None:
    # In reverse: Go sends the first that suits the server, OpenSSL the last of a kind of key.
    for certificate, key in reversed(pairs):
        for file in (certificate, key) if key else (certificate,):
            _read(file)
        try:
            context.load_cert_chain(certificate, key or None, password=lambda: "")
        except (OSError, ValueError):
            raise TrustProblem(
                f"{certificate!r} cannot be read as a client certificate with its key"
            ) from None


def _read(file: str) -> bytes:
    """Return the bytes of a regular file of a modest size."""
    try:
        with open(file, "rb", opener=open_now) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TrustProblem(f"{file!r} is not a regular file")
            data = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise TrustProblem(f"{file!r} does not exist") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise TrustProblem(f"{file!r} cannot be read: {why}") from None
    if len(data) > _MOST_BYTES:
        raise TrustProblem(f"{file!r} is larger than 1 MiB")
    return data
