"""The exceptions that keyferry raises.

The text of an error is for people; programs use its type and its ``kind``. ``kubernetes_text`` is
the message that the kubelet or client-go logs for the same failure, so that people can search for
it. It may quote everything that Kubernetes quotes, including a plugin's standard error, so it is
never printed or logged by default.
"""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.secrets import in_one_line
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value, replace

__all__ = [
    "ClusterAuthError",
    "ConfigError",
    "ContainerRuntimeError",
    "Detail",
    "DocumentError",
    "DurationError",
    "EnvironmentProblem",
    "Fault",
    "HttpError",
    "ImageNameError",
    "ImagePullError",
    "KeyferryError",
    "Kind",
    "KubeconfigError",
    "KubeletReason",
    "MatchError",
    "NodeAudienceError",
    "PluginError",
    "PluginExitError",
    "PluginNotFoundError",
    "PluginOutputError",
    "PluginProtocolError",
    "PluginStartError",
    "PluginTimeoutError",
    "PolicyError",
    "Problem",
    "ProvideError",
    "PullSecretError",
    "RecordError",
    "RegistryError",
    "ServiceAccountError",
    "TimeError",
    "UnusableCertificateError",
]


class Kind(StrEnum):
    """The kind of an error; documents contain these words, and the command line has an exit code for each.

    ``NOT_FOUND``, ``CONTENT`` and ``ERROR`` apply to several things: a program or an image, a record or the content
    that a registry sent.
    """

    # any subject
    ERROR = "error"
    NOT_FOUND = "not-found"
    TIMEOUT = "timeout"
    CONTENT = "content"
    # a registry, a server, a container runtime
    REFUSED = "refused"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"
    UNSAFE = "unsafe"  # it requested an action that is not safe
    ABSENT = "absent"  # an image that is not on the node and must not be pulled
    # a plugin
    START = "start"
    EXIT = "exit"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    # a pull record
    SYNTAX = "syntax"
    TYPE = "type"
    TRUST = "trust"
    FOREIGN = "foreign"
    MISPLACED = "misplaced"
    LOCKED = "locked"
    SYSTEM = "system"
    # a document; these are the words of the recorded answers
    JSON_SYNTAX = "json-syntax"
    YAML_SYNTAX = "yaml-syntax"
    WRONG_TYPE = "wrong-type"
    STRICT = "strict"
    DURATION = "duration"
    BASE64 = "base64"
    URL = "url"
    GROUP_VERSION = "group-version"
    MISSING_KIND = "missing-kind"
    MISSING_API_VERSION = "missing-apiversion"
    UNKNOWN_TYPE = "unknown-type"
    OTHER = "other"
    # an argument, or the state of this machine
    NAME = "name"
    PATTERN = "pattern"
    TIME = "time"
    CONFIG = "config"
    POLICY = "policy"
    ENVIRONMENT = "environment"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word
    SERVICE_ACCOUNT = "service-account"


class KeyferryError(Exception):
    """The base class of all exceptions that keyferry raises."""

    kind: Kind = Kind.ERROR
    kubernetes_text: str = ""

    def __repr__(self) -> str:
        # Without ``args``, which Python's repr shows: they hold kubernetes_text, which may quote a secret.
        return f"{type(self).__name__}({str(self)!r})"


class TextError(KeyferryError):
    """An error with one message, and Kubernetes' message for it."""

    def __init__(self, message: str, kubernetes_text: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return self.message


class DocumentError(KeyferryError):
    """Text that is not valid JSON or YAML; ``kind`` is ``JSON_SYNTAX``, ``YAML_SYNTAX`` or ``OTHER``."""

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        kubernetes_text: str = "",
        kind: Kind = Kind.YAML_SYNTAX,
    ) -> None:
        super().__init__(message, line, column, kubernetes_text, kind)
        self.message = message
        self.line = line
        self.column = column
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return where + self.message


class DurationError(TextError):
    """Text that is not a duration in Go's syntax."""

    kind = Kind.DURATION


class TimeError(TextError):
    """Text that Kubernetes does not accept as an RFC 3339 time."""

    kind = Kind.TIME


class Detail(StrEnum):
    """The exact problem of a value or field, where its kind alone is not specific enough."""

    NONE = ""
    UNKNOWN_FIELD = "unknown-field"
    REPEATED_FIELD = "repeated-field"
    REPEATED_NAME = "repeated-name"  # of an entry in a list
    SCALAR_FOR_TEXT = "scalar-for-text"  # a number or boolean that lacks quotes
    NO_TEXT = "no-text"  # an object or array where text is expected


class Problem(Value):
    """One problem of a document: its position, its message, and Kubernetes' message for it."""

    path: str
    message: str
    code: str
    kubernetes_text: str
    kind: Kind
    detail: Detail
    file: str
    line: int | None
    column: int | None

    def __init__(
        self,
        path: str,
        message: str,
        *,
        code: str = "",
        kubernetes_text: str = "",
        kind: Kind = Kind.OTHER,
        detail: Detail = Detail.NONE,
        file: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(
            path=path,
            message=message,
            code=code,
            kubernetes_text=kubernetes_text or message,
            kind=kind,
            detail=detail,
            file=file,
            line=line,
            column=column,
        )

    def changed(self, **changes: object) -> Problem:
        """Return a copy of this problem with *changes* applied to its fields."""
        return replace(self, **changes)

    def placed(self, file: str, line: int | None, column: int | None, path: str | None = None) -> Problem:
        """Return a copy of this problem at a position in a file, with another *path* if one is given."""
        return replace(self, path=self.path if path is None else path, file=file, line=line, column=column)

    @property
    def place(self) -> tuple[str, int, int, str]:
        """A sort key that puts problems in the order of their positions in the files."""
        return self.file, self.line or 0, self.column or 0, self.code

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        return ": ".join(part for part in (where, self.path, self.message) if part)


class ConfigError(KeyferryError):
    """A configuration that Kubernetes would refuse; ``problems`` holds every problem found, by its position.

    The files keep the order in which they were given. If there is no other text, ``kubernetes_text`` is that of the
    problem that was given first. ``bin_dir`` is the folder of plugins that a provider config was loaded with, if known.
    """

    kind = Kind.CONFIG
    bin_dir: str = ""

    def __init__(self, problems: tuple[Problem, ...], kubernetes_text: str = "") -> None:
        super().__init__(problems, kubernetes_text)
        files = list(dict.fromkeys(problem.file for problem in problems))
        ordered = sorted(problems, key=lambda problem: (files.index(problem.file), *problem.place))
        self.problems = tuple(ordered)
        self.kubernetes_text = kubernetes_text or (problems[0].kubernetes_text if problems else "")

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class KubeconfigError(ConfigError):
    """A kubeconfig that client-go would refuse, or none at all."""


class EnvironmentProblem(TextError):
    """A config, a file or a permission is missing on this machine."""

    kind = Kind.ENVIRONMENT


class ImageNameError(TextError):
    """An image name that cannot be parsed."""

    kind = Kind.NAME


class MatchError(TextError):
    """A pattern or image that does not parse as a registry URL, or a malformed glob."""

    kind = Kind.PATTERN


class PullSecretError(TextError):
    """An image pull secret or docker config whose content cannot be read.

    ``secret`` is the namespace and name of the pull secret, as ``namespace/name``, or empty for a file.
    """

    kind = Kind.PULL_SECRET

    def __init__(self, message: str, kubernetes_text: str = "", secret: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.args = (message, kubernetes_text, secret)
        self.secret = secret


class ServiceAccountError(TextError):
    """A service account or its token could not be obtained."""

    kind = Kind.SERVICE_ACCOUNT


class NodeAudienceError(ServiceAccountError):
    """The API server does not let the kubelet of ``node`` request tokens for ``audience``.

    ``node`` is empty if the pod is on no node. ``account`` is the service account, as ``namespace/name``. ``manifests``
    are the RBAC objects that permit it, and take nothing away.
    """

    kind = Kind.REFUSED

    def __init__(
        self, node: str, audience: str, account: str = "", manifests: tuple[dict[str, object], ...] = ()
    ) -> None:
        who = f"node {node!r}" if node else "the kubelets of this cluster"
        name, user = account.rpartition("/")[2], f"system:node:{node or 'NODE'}"
        super().__init__(
            f"{who} may not request tokens for audience {audience!r}",
            f'failed to get service account token: failed to fetch token: serviceaccounts "{name}" is forbidden: '
            f'{user} is not authorized to request tokens for audience "{audience}"',
        )
        self.args = (node, audience, account, manifests)
        self.node = node
        self.audience = audience
        self.account = account
        self.manifests = manifests


class PolicyError(TextError):
    """A program that the policy does not permit, or an invalid policy.

    ``field`` is the invalid field of an allowlist entry, or empty if the problem is not in a single field.
    """

    kind = Kind.POLICY

    def __init__(self, message: str, kubernetes_text: str = "", field: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.args = (message, kubernetes_text, field)
        self.field = field


class RecordError(KeyferryError):
    """A pull record or intent that cannot be read, cannot be trusted, or could not be written.

    ``kind`` is ``SYNTAX``, ``TYPE``, ``CONTENT``, ``TRUST``, ``FOREIGN``, ``MISPLACED``, ``LOCKED`` or ``SYSTEM``.
    ``document_kind`` is the kind of Kubernetes' error for a document that Kubernetes refuses.
    """

    def __init__(
        self,
        path: str,
        message: str,
        kubernetes_text: str = "",
        kind: Kind = Kind.SYSTEM,
        document_kind: Kind = Kind.OTHER,
    ) -> None:
        super().__init__(path, message, kubernetes_text, kind, document_kind)
        self.path = path
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind
        self.document_kind = document_kind

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class PluginError(KeyferryError):
    """A plugin that matched and did not give a usable response."""

    kind = Kind.ERROR
    seconds: float | None = None  # the duration of the run, if the plugin was run
    stderr_tail: str = ""  # the end of its standard error, with secrets masked, as far as it is known

    def __init__(self, plugin: str, message: str, kubernetes_text: str = "") -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.plugin = plugin
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}: {self.message}"


class PluginNotFoundError(PluginError):
    """The plugin's executable is missing.

    ``path`` is where it was expected, if that is one place. ``folder_changed_ns`` is when the folder there was changed
    last, so that a file that was removed from it is missing since then at the latest; None if that is not known.
    """

    kind = Kind.NOT_FOUND

    def __init__(  # noqa: PLR0917 - args mirror the constructor
        self,
        plugin: str,
        message: str,
        kubernetes_text: str = "",
        install_hint: str = "",
        path: str = "",
        folder_changed_ns: int | None = None,
    ) -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.args = (plugin, message, kubernetes_text, install_hint, path, folder_changed_ns)
        self.install_hint = install_hint
        self.path = path
        self.folder_changed_ns = folder_changed_ns


class PluginStartError(PluginError):
    """The plugin's executable exists and cannot be started."""

    kind = Kind.START


class PluginTimeoutError(PluginError):
    """The plugin did not finish in time; it and its process group were killed.

    If *was_killed* is false, the time was spent waiting for another lookup's run, which continues.
    """

    kind = Kind.TIMEOUT

    def __init__(
        self,
        plugin: str,
        timeout_seconds: float,
        kubernetes_text: str = "",
        stderr_tail: str = "",
        was_killed: bool = True,  # noqa: FBT001, FBT002 - args mirror the constructor
    ) -> None:
        end = " and was killed" if was_killed else ", spent waiting for other lookups"
        message = f"did not finish within {timeout_seconds:g} s{end}" + _tail(stderr_tail)
        super().__init__(plugin, message, kubernetes_text)
        self.args = (plugin, timeout_seconds, kubernetes_text, stderr_tail, was_killed)
        self.timeout_seconds = timeout_seconds
        self.stderr_tail = stderr_tail
        self.was_killed = was_killed


class PluginExitError(PluginError):
    """The plugin exited with a status other than 0; ``status`` is negative for a signal."""

    kind = Kind.EXIT

    def __init__(self, plugin: str, status: int, kubernetes_text: str = "", stderr_tail: str = "") -> None:
        what = f"exited with status {status}" if status >= 0 else f"was killed by {signal_name(-status)}"
        super().__init__(plugin, what + _tail(stderr_tail), kubernetes_text)
        self.args = (plugin, status, kubernetes_text, stderr_tail)
        self.status = status
        self.stderr_tail = stderr_tail


class PluginOutputError(PluginError):
    """The plugin wrote more output than is allowed; it and its process group were killed."""

    kind = Kind.OUTPUT

    def __str__(self) -> str:
        return super().__str__() + _tail(self.stderr_tail)


class Fault(StrEnum):
    """The part of the protocol that a plugin's response breaks."""

    SYNTAX = "syntax"  # the response is not one document of the protocol
    GROUP_VERSION = "group-version"  # apiVersion has more than one slash
    VERSION = "version"  # apiVersion differs from that of the request
    KIND = "kind"
    FIELD = "field"
    DURATION = "duration"  # cacheDuration is not a duration
    NO_STATUS = "no-status"
    NO_CREDENTIAL = "no-credential"
    HALF_PAIR = "half-pair"  # a certificate without its key, or the reverse
    KEY_PAIR = "key-pair"  # a certificate and key that cannot be used


class PluginProtocolError(PluginError):
    """The plugin's response breaks the protocol; no byte of the response is quoted.

    ``fault`` is the part of the protocol that it breaks, ``document_kind`` the kind of the decoder's error in
    Kubernetes.
    """

    kind = Kind.PROTOCOL

    def __init__(
        self,
        plugin: str,
        problem: str,
        kubernetes_text: str = "",
        document_kind: Kind = Kind.OTHER,
        fault: Fault = Fault.FIELD,
    ) -> None:
        super().__init__(plugin, problem, kubernetes_text)
        self.args = (plugin, problem, kubernetes_text, document_kind, fault)
        self.problem = problem
        self.document_kind = document_kind
        self.fault = fault

    def __str__(self) -> str:
        return super().__str__() + _tail(self.stderr_tail)


class UnusableCertificateError(PluginProtocolError):
    """The plugin's certificate and key cannot be used; ``expires_ns`` is the expiry in its response."""

    def __init__(self, plugin: str, problem: str, kubernetes_text: str, expires_ns: int | None) -> None:
        super().__init__(plugin, problem, kubernetes_text, fault=Fault.KEY_PAIR)
        self.args = (plugin, problem, kubernetes_text, expires_ns)
        self.expires_ns = expires_ns


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tail(stderr_tail: str) -> str:
    return f"; stderr: {in_one_line(stderr_tail)}" if stderr_tail else ""


class ProvideError(KeyferryError):
    """A plugin made with the SDK has no credential; *hint* is the permission, setting or command that helps.

    The SDK prints this error on standard error and exits with a status other than 0. *retry_after_seconds* is the pause
    that a server asked for, which the node agent keeps to.
    """

    def __init__(
        self, message: str, hint: str = "", kind: Kind = Kind.ERROR, *, retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message, hint, kind)
        self.message = message
        self.hint = hint
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class HttpError(ProvideError):
    """A server is unreachable, or its response is not HTTP; *url* has no query and no user info."""

    def __init__(self, url: str, problem: str, hint: str = "", is_timeout: bool = False) -> None:  # noqa: FBT001, FBT002 - args mirror it
        super().__init__(f"{url}: {problem}", hint, Kind.TIMEOUT if is_timeout else Kind.UNREACHABLE)
        self.args = (url, problem, hint, is_timeout)
        self.url = url
        self.problem = problem
        self.is_timeout = is_timeout


class ClusterAuthError(KeyferryError):
    """A credential for a cluster could not be obtained or used; ``underlying`` is the cause, if it is another error.

    ``kind`` is that of the underlying error, else ``REFUSED``, ``UNREACHABLE`` for a server that could not be reached,
    or ``TIMEOUT`` for one that did not respond in time. ``server`` is the URL of the server without user info and
    the values of its query, which may hold a password or token. ``stderr_tail`` is the reason that a plugin gave: the
    end of its standard error, with secrets masked; empty for a plugin that had the terminal.
    """

    def __init__(
        self,
        server: str,
        message: str,
        kubernetes_text: str = "",
        underlying: KeyferryError | None = None,
        kind: Kind = Kind.REFUSED,
    ) -> None:
        if "@" in server or "?" in server or "#" in server:
            server = hide_in_url(server)
        super().__init__(server, message, kubernetes_text, underlying, kind)
        self.server = server
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.underlying = underlying
        self.kind = kind if underlying is None else underlying.kind
        self.stderr_tail: str = getattr(underlying, "stderr_tail", "")

    def __str__(self) -> str:
        return f"cluster {self.server!r}: {self.message}" if self.server else self.message


class ContainerRuntimeError(KeyferryError):
    """A failed call to a container runtime.

    ``kind`` is ``REFUSED`` (the registry did not accept the credential), ``NOT_FOUND``, ``UNREACHABLE``, ``TIMEOUT``
    or ``ERROR``.
    """

    def __init__(self, socket: str, code: str, message: str, kind: Kind = Kind.ERROR) -> None:
        super().__init__(socket, code, message, kind)
        self.socket = socket
        self.code = code
        self.message = message
        self.kind = kind
        self.kubernetes_text = (
            f"rpc error: code = {''.join(map(str.title, code.split('_')))} desc = {message}"
        )

    def __str__(self) -> str:
        return f"container runtime: {self.message or self.code}"


_STATUS_KINDS = {401: Kind.REFUSED, 403: Kind.REFUSED, 404: Kind.NOT_FOUND, 429: Kind.THROTTLED}


class RegistryError(KeyferryError):
    """A failed request to a registry, or a response that cannot be trusted.

    ``status`` is the HTTP status, or 0 if there was no response or the content of the response is wrong. ``kind`` is
    ``REFUSED``, ``NOT_FOUND``, ``THROTTLED``, ``UNREACHABLE``, ``TIMEOUT``, ``UNSAFE`` (the registry requested an
    unsafe action), ``CONTENT`` (the registry sent wrong content) or ``ERROR``; by default it follows from the status.
    """

    def __init__(self, registry: str, status: int, message: str, kind: Kind | None = None) -> None:
        super().__init__(registry, status, message, kind)
        self.registry = registry
        self.status = status
        self.message = message
        self.kubernetes_text = message
        self.kind = kind or _STATUS_KINDS.get(status, Kind.ERROR)

    @property
    def is_refusal(self) -> bool:
        """Whether the registry, or its token server, did not accept the credential."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return f"registry {self.registry!r}: {self.message}"


class KubeletReason(StrEnum):
    """Why a container waits for its image, in the kubelet's words for a pod's status and events."""

    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    INVALID_IMAGE_NAME = "InvalidImageName"
    # reported by a runtime in place of ErrImagePull
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"


class ImagePullError(KeyferryError):
    """An image that a pod cannot use; ``kubelet_reason`` is the kubelet's word for it.

    ``failures`` has an error for each credential that was tried, in order. ``kind`` is as in RegistryError, ``ABSENT``
    for an image that is not on the node and must not be pulled, and ``NAME`` for a name that cannot be parsed.
    """

    def __init__(  # noqa: PLR0917 - args mirror it
        self,
        image: str,
        kubelet_reason: KubeletReason,
        message: str,
        kubernetes_text: str = "",
        kind: Kind = Kind.ERROR,
        failures: tuple[KeyferryError, ...] = (),
    ) -> None:
        super().__init__(image, kubelet_reason, message, kubernetes_text, kind, failures)
        self.image = image
        self.kubelet_reason = kubelet_reason
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind
        self.failures = failures

    @property
    def is_refusal(self) -> bool:
        """Whether the registry, or its token server, accepted none of the credentials."""
        return self.kind is Kind.REFUSED

    def __str__(self) -> str:
        return self.message
