"""``client.authentication.k8s.io/v1``: what a cluster's exec plugin is told, and what it answers."""

from binascii import b2a_base64

from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry.api.meta import format_time, parse_time
from keyferry.errors import DocumentError, Kind, TimeError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
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
# Go's zero time, the first instant of the year 1, which counts as no time at all.
_NO_TIME_NS = -62_135_596_800 * 1_000_000_000
_CONFIG_PATH = ("spec", "cluster", "config")
_JSON_BEGINS = tuple('\t\r\n {[ntf"-0123456789')
_UNRECOGNIZED = "cannot convert RawExtension with unrecognized content type to unstructured"


class ClusterInfo(Value):
    """The cluster that a credential is for; *config* is the plugin's own, as JSON text."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    proxy_url: str = field(default="", repr=False)  # may hold a password
    disable_compression: bool = False
    config: str | None = field(default=None, repr=False)


class ExecCredentialStatus(Value):
    """The answer: a token, a certificate and key as PEM, or both; *expiration_ns* in Unix time."""

    token: str = field(default="", repr=False)
    client_certificate_data: str = ""
    client_key_data: str = field(default="", repr=False)
    expiration_ns: int | None = None


class ExecCredential(Value):
    """The object that goes both ways: the question in *cluster* and *interactive*, the answer in *status*."""

    cluster: ClusterInfo | None = None
    interactive: bool = False
    status: ExecCredentialStatus | None = None


def encode_exec_info(api_version: str, cluster: ClusterInfo | None, *, interactive: bool) -> str:
    """The text of KUBERNETES_EXEC_INFO, byte for byte as client-go writes it, its newline included.

    Raises DocumentError for a config that is not JSON.
    """
    spec = f'"interactive":{"true" if interactive else "false"}'
    if cluster is not None:
        spec = f'"cluster":{_encode_cluster(cluster)},{spec}'
    return f'{{"kind":"{KIND}","apiVersion":{dumps(api_version)},"spec":{{{spec}}}}}\n'


def encode_exec_credential(status: ExecCredentialStatus, api_version: str = API_VERSION) -> bytes:
    """The bytes a plugin of *api_version* writes: one JSON document on one line; what is absent is left out.

    The time is in whole seconds, as Go's plugins write it: never later than what was given.
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
    # The config keeps the order of its keys and the spelling of its numbers, so it is not read and written.
    return f'{dumps(set_fields)[:-1]},"config":{_compact(cluster.config)}}}'


def _compact(config: str | None) -> str:
    """JSON text without blanks outside strings, with Go's escapes."""
    if config is None:
        return "null"
    # Kubernetes looks at the first byte for what this is before it lets the encoder read it.
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


def read_exec_credential(document: object, reader: "Reader", text: str = "") -> ExecCredential:
    """Take an ExecCredential of any version out of *document*; what is wrong with it is left in *reader*.

    Kubernetes ignores unknown and repeated fields here, so of the problems only those of another
    class than ``strict`` count. *text* is the JSON that the document was read from, if it was:
    the config is then given as it stands there.
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


def _read_spec(reader: "Reader", value: object, path: "Path", text: str) -> "tuple[ClusterInfo | None, bool]":
    readers = {
        "cluster": lambda value, path: _read_cluster(reader, value, path, text),
        "interactive": reader.boolean,
    }
    fields = reader.struct(value, path, readers)
    return fields.get("cluster"), bool(fields.get("interactive"))


def _read_cluster(reader: "Reader", value: object, path: "Path", text: str) -> ClusterInfo | None:
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


def _read_status(reader: "Reader", value: object, path: "Path") -> ExecCredentialStatus | None:
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


def _read_time(reader: "Reader", value: object, path: "Path") -> int | None:
    if not isinstance(value, str):
        reader.text(value, path)
        return None
    try:
        nanoseconds = parse_time(value)
    except TimeError as error:
        # Our own words quote nothing: a plugin may have put its token here.
        message = "not an RFC 3339 time such as '2006-01-02T15:04:05Z'"
        reader.note(path, message, error.kubernetes_text, Kind.TIME)
        return None
    return None if nanoseconds == _NO_TIME_NS else nanoseconds


def _raw(text: str, path: "tuple[str, ...]") -> str:
    """The text of one member of valid JSON, exactly as written; of members with one name the last counts."""
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
    """*value* with the keys of its objects in order, as Go writes what it read from YAML."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
