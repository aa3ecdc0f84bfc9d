"""``client.authentication.k8s.io/v1``: requests to and responses from exec credential plugins for clusters."""

from __future__ import annotations

from binascii import b2a_base64

from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry.api.meta import format_time, parse_time
from keyferry.errors import DocumentError, Kind, TimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.paths import Path
    from keyferry.api.codec import Reader

__all__ = [
    "API_VERSION",
    "ClusterInfo",
    "ExecCredential",
    "ExecCredentialStatus",
    "encode_exec_credential",
    "encode_exec_info",
    "read_exec_credential",
]

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
API_VERSION = f"{GROUP}/v1"
# Go's zero time, the first instant of the year 1, which means "not set".
_NO_TIME_NS = -62_135_596_800 * 1_000_000_000
_CONFIG_PATH = ("spec", "cluster", "config")
_JSON_BEGINS = tuple('\t\r\n {[ntf"-0123456789')
_UNRECOGNIZED = "cannot convert RawExtension with unrecognized content type to unstructured"


class ClusterInfo(Value):
    """The cluster that a credential is for; *config* is the plugin's configuration as JSON text."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    proxy_url: str = field(default="", repr=False)  # may hold a password
    disable_compression: bool = False
    config: str | None = field(default=None, repr=False)


class ExecCredentialStatus(Value):
    """The response: a token, a certificate and key as PEM, or both; *expiration_ns* is Unix time."""

    token: str = field(default="", repr=False)
    client_certificate_data: str = ""
    client_key_data: str = field(default="", repr=False)
    expiration_ns: int | None = None


class ExecCredential(Value):
    """A request, in *cluster* and *interactive*, or a response, in *status*."""

    cluster: ClusterInfo | None = None
    interactive: bool = False
    status: ExecCredentialStatus | None = None


def encode_exec_info(api_version: str, cluster: ClusterInfo | None, *, interactive: bool) -> str:
    """Return the text of KUBERNETES_EXEC_INFO exactly as client-go writes it, with its final newline.

    Raise DocumentError for a config that is not JSON.
    """
    spec = f'"interactive":{"true" if interactive else "false"}'
    if cluster is not None:
        spec = f'"cluster":{_encode_cluster(cluster)},{spec}'
    return f'{{"kind":"{KIND}","apiVersion":{dumps(api_version)},"spec":{{{spec}}}}}\n'


def encode_exec_credential(status: ExecCredentialStatus, api_version: str = API_VERSION) -> bytes:
    """Return the bytes a plugin of *api_version* writes: one JSON document on one line, without empty fields.

    The expiry is rounded down to whole seconds, as plugins written in Go do.
    """
    fields: dict[str, object] = {
        "expirationTimestamp": None if status.expiration_ns is None else format_time(status.expiration_ns),
        "token": status.token,
        "clientCertificateData": status.client_certificate_data,
        "clientKeyData": status.client_key_data,
    }
    shown = dumps({name: value for name, value in fields.items() if value})
    head = f'"kind":"{KIND}","apiVersion":{dumps(api_version)},"spec":{{"interactive":false}}'
    return f'{{{head},"status":{shown}}}\n'.encode()


def _encode_cluster(cluster: ClusterInfo) -> str:
    fields: dict[str, object] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": b2a_base64(cluster.certificate_authority_data, newline=False).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    set_fields = {name: value for name, value in fields.items() if value or name == "server"}
    # The config is not decoded and encoded again, which would change the order of keys and the form of numbers.
    return f'{dumps(set_fields)[:-1]},"config":{_compact(cluster.config)}}}'


def _compact(config: str | None) -> str:
    """Return JSON text without blanks outside strings, with Go's escapes."""
    if config is None:
        return "null"
    # Kubernetes checks the first byte of the config before it passes the config to the encoder.
    failure = "" if config[:1] in _JSON_BEGINS else _UNRECOGNIZED
    try:
        loads(config, quoting=True)
    except DocumentError as error:
        failure = failure or error.kubernetes_text
    if failure:
        text = f"json: error calling MarshalJSON for type *runtime.RawExtension: {failure}"
        raise DocumentError(
            "the cluster's config for the plugin is not JSON",
            kubernetes_text=f"encode ExecCredentials: {text}",
            kind=Kind.OTHER,
        )
    import re

    kept = re.sub(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', lambda match: match[1] or "", config)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", kept)


def read_exec_credential(document: object, reader: Reader, text: str = "") -> ExecCredential:
    """Return the ExecCredential, of any version, in *document*; *reader* collects the problems.

    Kubernetes ignores unknown and repeated fields here, so the caller ignores problems of the kind
    ``STRICT``. *text* is the JSON text of the document, if it is JSON: the config is then returned
    exactly as written there.
    """
    fields = reader.struct(
        document,
        (),
        {
            "kind": reader.text,
            "apiVersion": reader.text,
            "spec": lambda value, path: _read_spec(reader, value, path, text),
            "status": lambda value, path: _read_status(reader, value, path),
        },
    )
    cluster, interactive = fields.get("spec") or (None, False)
    return ExecCredential(cluster, interactive, fields.get("status"))


def _read_spec(reader: Reader, value: object, path: Path, text: str) -> tuple[ClusterInfo | None, bool]:
    readers = {
        "cluster": lambda value, path: _read_cluster(reader, value, path, text),
        "interactive": reader.boolean,
    }
    fields = reader.struct(value, path, readers)
    return fields.get("cluster"), bool(fields.get("interactive"))


def _read_cluster(reader: Reader, value: object, path: Path, text: str) -> ClusterInfo | None:
    fields = reader.struct(
        value,
        path,
        {
            "server": reader.text,
            "tls-server-name": reader.text,
            "insecure-skip-tls-verify": reader.boolean,
            "certificate-authority-data": reader.data,
            "proxy-url": reader.text,
            "disable-compression": reader.boolean,
            "config": reader.anything,
        },
    )
    if value is None:
        return None
    config = fields.get("config")
    return ClusterInfo(
        server=fields.get("server") or "",
        tls_server_name=fields.get("tls-server-name") or "",
        insecure_skip_tls_verify=bool(fields.get("insecure-skip-tls-verify")),
        certificate_authority_data=fields.get("certificate-authority-data") or b"",
        proxy_url=fields.get("proxy-url") or "",
        disable_compression=bool(fields.get("disable-compression")),
        config=None if config is None else _raw(text, _CONFIG_PATH) if text else dumps(_sorted(config)),
    )


def _read_status(reader: Reader, value: object, path: Path) -> ExecCredentialStatus | None:
    fields = reader.struct(
        value,
        path,
        {
            "expirationTimestamp": lambda value, path: _read_time(reader, value, path),
            "token": reader.text,
            "clientCertificateData": reader.text,
            "clientKeyData": reader.text,
        },
    )
    if value is None:
        return None
    return ExecCredentialStatus(
        fields.get("token") or "",
        fields.get("clientCertificateData") or "",
        fields.get("clientKeyData") or "",
        fields.get("expirationTimestamp"),
    )


def _read_time(reader: Reader, value: object, path: Path) -> int | None:
    if not isinstance(value, str):
        reader.text(value, path)
        return None
    try:
        nanoseconds = parse_time(value)
    except TimeError as error:
        # The message does not quote the value: a plugin may have put its token here.
        message = "not an RFC 3339 time such as '2006-01-02T15:04:05Z'"
        reader.note(path, message, error.kubernetes_text, Kind.TIME)
        return None
    return None if nanoseconds == _NO_TIME_NS else nanoseconds


def _raw(text: str, path: tuple[str, ...]) -> str:
    """Return the text of one member of valid JSON, exactly as written; the last of several equal names counts."""
    from json import JSONDecoder

    decode = JSONDecoder().raw_decode
    start = _skip(text, 0)
    end = len(text)
    for name in path:
        at = _skip(text, start + 1)
        while text[at] != "}":
            found, at = decode(text, at)
            value_at = _skip(text, _skip(text, at) + 1)
            _, value_end = decode(text, value_at)
            if found == name:
                start, end = value_at, value_end
            at = _skip(text, value_end)
            at = _skip(text, at + 1) if text[at] == "," else at
    return text[start:end]


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _sorted(value: object) -> object:
    """Return *value* with the keys of its objects sorted, as Go encodes a value that was read from YAML."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
