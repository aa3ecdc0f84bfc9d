"""The files of container runtimes, read with limits: TOML, and the certificates, keys and headers for a host."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from keyferry._core.bounded import open_now
from keyferry._core.host_root import on_host
from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl


Table = dict[str, object]
_MAX_TOML_BYTES = 1 << 20
# The parser's time for a key grows with the square of its parts.
_MAX_DOTS = 1000
# Each host is asked in turn, with a TLS context of its own.
_MAX_HOSTS = 100
_MAX_PEM_BYTES = 1 << 20
# A header line of an encrypted PEM block: OpenSSL would ask for a pass phrase on the terminal.
_ENCRYPTED = b"Proc-Type:"
# Go's HTTP client sets these itself, and keyferry reads no compressed answer.
_UNSENT = ("host", "trailer", "accept-encoding", "content-length", "transfer-encoding", "connection")


class TomlProblem(Exception):
    """Why a file cannot be used, as part of a sentence about it."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem


def load_toml(path: str) -> Table:
    """Return the table in a file; raise FileNotFoundError or TomlProblem, with the line where that is known."""
    import tomllib

    try:
        with open(on_host(path), "rb", opener=open_now) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TomlProblem(path, "it is not a regular file")
            data = stream.read(_MAX_TOML_BYTES + 1)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise TomlProblem(path, f"it cannot be read: {error.strerror}") from None
    if len(data) > _MAX_TOML_BYTES:
        raise TomlProblem(path, "it is larger than 1 MiB")
    if any(line.count(b".") > _MAX_DOTS for line in data.splitlines()):
        raise TomlProblem(path, f"a line has more than {_MAX_DOTS} dots")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        problem = "it is not TOML: it is not UTF-8"
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # The parser's message has a line and names keys, but quotes no value.
        problem = f"it is not TOML: {error}"
    raise TomlProblem(path, problem)


def check_count(path: str, hosts: int) -> None:
    """Raise TomlProblem if a file has too many hosts for one image."""
    if hosts > _MAX_HOSTS:
        raise TomlProblem(path, f"it has more than {_MAX_HOSTS} hosts, which is too many here")


def subtable(table: object, *names: str) -> Table:
    """Return the table at a path of names; an empty one if it is absent or not a table."""
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def texts(value: object) -> list[str]:
    """Return the strings of a list; none if it is not a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def under(root: str, path: str) -> str:
    """Return a path of the host below *root*; a path that is already below it is returned unchanged."""
    is_there = root == "/" or path.startswith(os.path.join(root, ""))
    return path if is_there else os.path.join(root, path.lstrip("/"))


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
        names = sorted(os.listdir(on_host(folder)))
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
            context.load_cert_chain(on_host(certificate), on_host(key) or None, password=lambda: "")
        except (OSError, ValueError):
            raise TrustProblem(
                f"{certificate!r} cannot be read as a client certificate with its key"
            ) from None


def _read(file: str) -> bytes:
    """Return the bytes of a regular file of a modest size."""
    try:
        with open(on_host(file), "rb", opener=open_now) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TrustProblem(f"{file!r} is not a regular file")
            data = stream.read(_MAX_PEM_BYTES + 1)
    except FileNotFoundError:
        raise TrustProblem(f"{file!r} does not exist") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise TrustProblem(f"{file!r} cannot be read: {why}") from None
    if len(data) > _MAX_PEM_BYTES:
        raise TrustProblem(f"{file!r} is larger than 1 MiB")
    return data
