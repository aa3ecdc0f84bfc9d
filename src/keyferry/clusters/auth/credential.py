"""Read an exec plugin's response as client-go does; error messages never contain any part of it."""

from __future__ import annotations

from math import inf
from time import monotonic

from keyferry._core.documents import is_json, read_yaml
from keyferry._core.gotext import quote
from keyferry._core.json import decode_utf8, loads
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication import v1
from keyferry.api.clientauthentication.v1 import API_VERSIONS, ExecCredential, ExecCredentialStatus
from keyferry.api.codec import UNVERSIONED, WrongTypeError, interpret, shown_api_version
from keyferry.api.wire import Reader
from keyferry.api.wire import text as text_shape
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.errors import (
    ClusterAuthError,
    DocumentError,
    Fault,
    Kind,
    PluginProtocolError,
    Problem,
    UnusableCertificateError,
)

_INTERNAL = f"{v1.GROUP}/__internal"
_PLUGIN = "exec plugin"
_PARTS = (("spec",), ("status",))
# Parsing YAML takes up to a thousand times its size in memory; JSON does not.
_MAX_YAML_BYTES = 256 * 1024


class ClusterCredential(Value):
    """A credential for a cluster: a token, a certificate with its key, or both, valid until *expires_ns*.

    The expiry is in Unix nanoseconds; None means that the plugin set none. Missing parts are empty strings.
    """

    token: str = field(default="", repr=False)
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    expires_ns: int | None = None


class Refusal(Exception):
    """A document that is not a valid ExecCredential.

    *is_decoded* means that the document itself is well-formed, but is an object of another kind.
    """

    def __init__(
        self,
        message: str,
        kubernetes_text: str,
        kind: Kind = Kind.OTHER,
        fault: Fault = Fault.SYNTAX,
        *,
        is_decoded: bool = False,
    ) -> None:
        super().__init__(message, kind, fault)
        self.message = message
        self.kubernetes_text = kubernetes_text
        self.kind = kind
        self.fault = fault
        self.is_decoded = is_decoded


def read_credential(
    api_version: str, stdout: bytes, *, plugin: str = _PLUGIN, until: float = inf
) -> ClusterCredential:
    """Read the credential that a plugin printed.

    Raises PluginProtocolError, its subclass UnusableCertificateError for a key pair that cannot be used, and
    TimeoutError if reading has not finished at the instant *until* of the monotonic clock.
    """
    return build_credential(read_status(api_version, stdout, plugin=plugin, until=until), plugin=plugin)


def read_status(
    api_version: str, stdout: bytes, *, plugin: str = _PLUGIN, until: float = inf
) -> ExecCredentialStatus:
    """Read the status that a plugin printed and check all of it except the key pair.

    Raises PluginProtocolError and TimeoutError as ``read_credential`` does.
    """
    try:
        found, credential = decode(stdout, default_kind=True, until=until)
    except Refusal as refusal:
        text = f"decoding stdout: {refusal.kubernetes_text}"
        message = f"its answer: {refusal.message}"
        failure = PluginProtocolError(plugin, message, text, refusal.kind, refusal.fault)
    else:
        _check_version(plugin, api_version, found, is_empty=not stdout.strip())
        return _check_status(plugin, credential.status)
    # Raised outside the except clause, because the caught exception may hold the document.
    raise failure


def build_credential(status: ExecCredentialStatus, *, plugin: str = _PLUGIN) -> ClusterCredential:
    """Return the credential in *status*. Raises UnusableCertificateError for a key pair that cannot be used."""
    if status.client_certificate_data:
        problem = text = ""
        try:
            parse_key_pair(status.client_certificate_data, status.client_key_data)
        except ClusterAuthError as error:
            problem, text = error.message, error.kubernetes_text
        if problem:
            text = f"failed parsing client key/certificate: {text}"
            raise UnusableCertificateError(plugin, f"its answer: {problem}", text, status.expiration_ns)
    return ClusterCredential(
        token=status.token,
        certificate_pem=status.client_certificate_data,
        key_pem=status.client_key_data,
        expires_ns=status.expiration_ns,
    )


def decode(
    data: bytes, *, default_kind: bool, quoting: bool = False, until: float = inf
) -> tuple[str, ExecCredential]:
    """Return the version and content of an ExecCredential in JSON or YAML.

    With *default_kind*, a missing kind defaults to ExecCredential, and a missing version to client-go's internal
    version, which no plugin can be configured for. *quoting* lets errors quote the document, and must be False
    for a plugin's output. Raises Refusal, and TimeoutError at the instant *until* of the monotonic clock.
    """
    is_yaml = not is_json(data)
    document = _read(data, is_yaml=is_yaml, quoting=quoting, until=until)
    api_version, kind = _identify(document, data, default_kind=default_kind)
    if kind != v1.KIND or api_version not in (*API_VERSIONS, _INTERNAL):
        raise _judge_foreign(api_version, kind, document, is_converted=default_kind)
    # The fields of client-go's internal version have other names, so none of them is found.
    if api_version == _INTERNAL:
        return api_version, ExecCredential()
    reader = Reader(sort_keys=is_yaml, lenient=True, text="" if is_yaml else decode_utf8(data))
    credential = ExecCredential.from_document(document, reader)
    for path, problem in reader.problems:
        fault = Fault.FIELD if path[:1] in _PARTS else Fault.SYNTAX
        raise Refusal(_shape_message(path, problem), problem.kubernetes_text, problem.kind, fault)
    return api_version, credential


def _read(data: bytes, *, is_yaml: bool, quoting: bool, until: float) -> object:
    """Return the value of a document, without the positions of its parts, which would take much longer."""
    if is_yaml and len(data) > _MAX_YAML_BYTES:
        message = f"found {len(data)} bytes of YAML, expected at most {_MAX_YAML_BYTES}; JSON may be longer"
        raise Refusal(message, "yaml: document is too long")
    stage = ""
    try:
        value = (
            read_yaml(data, quoting=quoting, until=until).value if is_yaml else loads(data, quoting=quoting)
        )
    except DocumentError as error:
        if error.kind is Kind.JSON_SYNTAX:
            stage = "couldn't get version/kind; json parse error: "
        text, kind = stage + error.kubernetes_text, error.kind
    else:
        # JSON is parsed in a single call, so the time limit is checked only after it.
        if monotonic() >= until:
            raise TimeoutError
        return value
    raise Refusal("neither JSON nor YAML", text, kind)


def _identify(document: object, data: bytes, *, default_kind: bool) -> tuple[str, str]:
    try:
        api_version, kind = interpret(document)
    except WrongTypeError as error:
        text = error.kubernetes_text
    else:
        return _default(api_version, kind, data) if default_kind else _require(api_version, kind, data)
    raise Refusal("expected an object whose apiVersion and kind are strings", text, Kind.WRONG_TYPE)


def _default(api_version: str, kind: str, data: bytes) -> tuple[str, str]:
    group, version = _split(api_version)
    if not version and group in ("", v1.GROUP):
        return _INTERNAL, kind or v1.KIND
    return _require(api_version, kind or v1.KIND, data)


def _require(api_version: str, kind: str, data: bytes) -> tuple[str, str]:
    _, version = _split(api_version)
    # Kubernetes quotes the whole document here, so this text is as secret as the document.
    if not kind:
        text = f"Object 'Kind' is missing in '{decode_utf8(data)}'"
        raise Refusal("kind is missing", text, Kind.MISSING_KIND)
    if not version:
        text = f"Object 'apiVersion' is missing in '{decode_utf8(data)}'"
        raise Refusal("apiVersion is missing", text, Kind.MISSING_API_VERSION)
    return api_version.removeprefix("/"), kind


def _split(api_version: str) -> tuple[str, str]:
    if api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        raise Refusal("the apiVersion has more than one '/'", text, fault=Fault.GROUP_VERSION)
    group, _, version = api_version.rpartition("/")
    return group, version


def _judge_foreign(api_version: str, kind: str, document: object, *, is_converted: bool) -> Refusal:
    """Return client-go's error for another kind; it knows a few kinds that every API has."""
    if kind not in UNVERSIONED:
        where = f"version {quote(api_version)} in scheme {quote('<scheme>')}"
        text = f"no kind {quote(kind)} is registered for {where}"
        return Refusal(f"not an {v1.KIND} of a known version", text, Kind.UNKNOWN_TYPE)
    message = f"found the kind {kind}, expected {v1.KIND}"
    reader = Reader(lenient=True)
    reader.struct(document, (), dict.fromkeys(("status", "message", "reason"), text_shape))
    for _, problem in reader.problems if kind == "Status" else ():
        return Refusal(message, problem.kubernetes_text, problem.kind, Fault.KIND)
    text = f"converting (v1.{kind}) to (clientauthentication.{v1.KIND}): unknown conversion"
    if not is_converted:
        group, _ = _split(api_version)
        shown = f"{kind}.{group}" if group else kind
        text = f"invalid group/kind: wanted {v1.KIND}.{v1.GROUP}, got {shown}"
    return Refusal(message, text, fault=Fault.KIND, is_decoded=True)


def _shape_message(path: tuple[str | int, ...], problem: Problem) -> str:
    """Return the message with its field path, which consists of the protocol's own names only."""
    return f"{'.'.join(map(str, path)) or 'the document'}: {problem.message}"


def _check_version(plugin: str, expected: str, found: str, *, is_empty: bool) -> None:
    if found == expected:
        return
    text = f"exec plugin is configured to use API version {expected}, plugin returned version {found}"
    answered = "without an apiVersion" if found == _INTERNAL else f"in apiVersion {shown_api_version(found)}"
    message = "it printed nothing" if is_empty else f"it answered {answered}, expected {expected!r}"
    raise PluginProtocolError(plugin, message, text, fault=Fault.VERSION)


def _check_status(plugin: str, status: ExecCredentialStatus | None) -> ExecCredentialStatus:
    if status is None:
        text = "exec plugin didn't return a status field"
        raise PluginProtocolError(plugin, "its answer has no status", text, fault=Fault.NO_STATUS)
    if not (status.token or status.client_certificate_data or status.client_key_data):
        text = "exec plugin didn't return a token or cert/key pair"
        message = "its answer has neither a token nor a certificate and key"
        raise PluginProtocolError(plugin, message, text, fault=Fault.NO_CREDENTIAL)
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        text = "exec plugin returned only certificate or key, not both"
        message = "its answer has only one of certificate and key"
        raise PluginProtocolError(plugin, message, text, fault=Fault.HALF_PAIR)
    return status
