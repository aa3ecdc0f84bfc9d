"""Every exception keyferry raises on purpose; this module imports nothing.

The text of an error is for people. Beside it stands ``kubernetes_text``: what
the kubelet or client-go would have logged in the same place, since that is
what people paste into a search. It may quote what Kubernetes quotes, a
plugin's standard error included, so it is never printed or logged by default.
"""

__all__ = [
    "ClusterAuthError",
    "ConfigError",
    "ContainerRuntimeError",
    "DocumentError",
    "DurationError",
    "EnvironmentProblem",
    "HttpError",
    "ImageNameError",
    "ImagePullError",
    "KeyferryError",
    "MatchError",
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


class KeyferryError(Exception):
    """The root of everything keyferry raises on purpose."""

    kubernetes_text: str = ""

    def __repr__(self) -> str:
        # Not of ``args``, as Python has it: they hold kubernetes_text, which may quote a secret.
        return f"{type(self).__name__}({str(self)!r})"


class _TextError(KeyferryError):
    """An error that is one sentence, and Kubernetes' words for it."""

    def __init__(self, message: str, kubernetes_text: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return self.message


class EnvironmentProblem(_TextError):
    """Something on this machine is missing or not permitted: a config, a file, a right."""


class ImageNameError(_TextError):
    """An image name that cannot be parsed."""


class MatchError(_TextError):
    """A pattern or image that does not parse as a registry URL, or a malformed glob."""


class DurationError(_TextError):
    """Text that is not a duration in Go's syntax."""


class TimeError(_TextError):
    """Text that is not an RFC 3339 time as Kubernetes reads it."""


class PullSecretError(_TextError):
    """An image pull secret or docker config whose content cannot be read."""


class RecordError(KeyferryError):
    """A pull record or intent that cannot be read, must not be believed, or could not be written.

    ``cause`` is ``syntax``, ``type``, ``content``, ``trust``, ``foreign``, ``misplaced``, ``locked`` or
    ``system``.
    """

    def __init__(
        self,
        path: str,
        message: str,
        kubernetes_text: str = "",
        cause: str = "system",
        error_class: str = "other",
    ) -> None:
        super().__init__(path, message, kubernetes_text, cause, error_class)
        self.path = path
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.cause = cause
        self.error_class = error_class

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ServiceAccountError(_TextError):
    """A service account or its token could not be had."""


class PolicyError(_TextError):
    """A program that the policy does not let us run, or a policy that makes no sense."""


class ProvideError(KeyferryError):
    """Why a plugin of ours has no credential; *hint* says what to grant, set or type next.

    What the SDK prints on standard error before it exits with a status other than 0.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class HttpError(ProvideError):
    """A server that a plugin could not reach, or whose answer is no HTTP; *url* has no query and no user info."""

    def __init__(self, url: str, problem: str, hint: str = "", is_timeout: bool = False) -> None:  # noqa: FBT001, FBT002 - args mirror it
        super().__init__(f"{url}: {problem}", hint)
        self.args = (url, problem, hint, is_timeout)
        self.url = url
        self.problem = problem
        self.is_timeout = is_timeout


class ClusterAuthError(KeyferryError):
    """No credential for a cluster could be had or used; ``cause`` is the error behind it, if there is one.

    ``server`` is its URL without user info, which may be a password.
    """

    def __init__(
        self, server: str, message: str, kubernetes_text: str = "", cause: KeyferryError | None = None
    ) -> None:
        if "@" in server:
            # Imported here: it is the only module that errors need, and seldom.
            from keyferry._core.user_info import hide_user_info

            server = hide_user_info(server)
        super().__init__(server, message, kubernetes_text, cause)
        self.server = server
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.cause = cause

    def __str__(self) -> str:
        return f"cluster {self.server!r}: {self.message}" if self.server else self.message


class ContainerRuntimeError(KeyferryError):
    """What a container runtime said when a call failed; *kind* is what it means by it.

    One of ``refused`` (the registry did not take the credential), ``missing``, ``unreachable``, ``timeout``, ``other``.
    """

    def __init__(self, socket: str, code: str, message: str, kind: str = "other") -> None:
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


class RegistryError(KeyferryError):
    """A registry that refused, has not what was asked for, could not be reached, or must not be believed.

    ``status`` is that of its HTTP answer, 0 where there was none or its content was at fault. ``cause`` is
    ``refused``, ``not-found``, ``throttled``, ``unreachable``, ``timeout``, ``unsafe`` (what it asked us to do),
    ``content`` (what it sent) or ``error``.
    """

    def __init__(self, registry: str, status: int, message: str, cause: str = "") -> None:
        super().__init__(registry, status, message, cause)
        self.registry = registry
        self.status = status
        self.message = message
        self.kubernetes_text = message
        self.cause = cause or _STATUS_CAUSES.get(status, "error")

    @property
    def is_refusal(self) -> bool:
        """Tell whether the registry, or its token server, did not accept the credential."""
        return self.cause == "refused"

    def __str__(self) -> str:
        return f"registry {self.registry!r}: {self.message}"


class ImagePullError(KeyferryError):
    """An image that a pod cannot have; ``reason`` is the kubelet's word for it.

    ``ErrImagePull``, ``ImagePullBackOff``, ``ErrImageNeverPull``, ``ImageInspectError``, ``InvalidImageName``, or
    what the runtime says in place of the first: ``RegistryUnavailable``, ``SignatureValidationFailed``. ``failures``
    has an error for each credential that was tried, in order. ``cause`` is as in RegistryError, and ``absent`` for an
    image that is not there and must not be pulled.
    """

    def __init__(  # noqa: PLR0917 - args mirror it
        self,
        image: str,
        reason: str,
        message: str,
        kubernetes_text: str = "",
        cause: str = "error",
        failures: tuple[KeyferryError, ...] = (),
    ) -> None:
        super().__init__(image, reason, message, kubernetes_text, cause, failures)
        self.image = image
        self.reason = reason
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.cause = cause
        self.failures = failures

    @property
    def is_refusal(self) -> bool:
        """Tell whether the registry, or its token server, accepted no credential."""
        return self.cause == "refused"

    def __str__(self) -> str:
        return self.message


class DocumentError(KeyferryError):
    """Text that is neither JSON nor YAML; ``error_class`` says which of them it failed to be.

    The classes are those of the recorded answers: ``json-syntax``, ``yaml-syntax``, ``other``.
    """

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        kubernetes_text: str = "",
        error_class: str = "yaml-syntax",
    ) -> None:
        super().__init__(message, line, column, kubernetes_text, error_class)
        self.message = message
        self.line = line
        self.column = column
        self.kubernetes_text = kubernetes_text or message
        self.error_class = error_class

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}, column {self.column}: "
        return where + self.message


class Problem:
    """One thing wrong with a document: where, what, and Kubernetes' words for it."""

    __slots__ = ("code", "column", "error_class", "file", "kubernetes_text", "line", "message", "path")

    def __init__(
        self,
        path: str,
        message: str,
        *,
        code: str = "",
        kubernetes_text: str = "",
        error_class: str = "other",
        file: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.path = path
        self.message = message
        self.code = code
        self.kubernetes_text = kubernetes_text or message
        self.error_class = error_class
        self.file = file
        self.line = line
        self.column = column

    def placed(self, file: str, line: int | None, column: int | None, path: str | None = None) -> "Problem":
        """This problem at a place in a file; under another *path* if one is given."""
        return Problem(
            self.path if path is None else path,
            self.message,
            code=self.code,
            kubernetes_text=self.kubernetes_text,
            error_class=self.error_class,
            file=file,
            line=line,
            column=column,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_problem, tuple(getattr(self, name) for name in sorted(self.__slots__))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.path, self.message, self.code, self.file, self.line, self.column))

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        return ": ".join(part for part in (where, self.path, self.message) if part)


def _rebuild_problem(*values: object) -> Problem:
    fields: dict[str, object] = dict(zip(sorted(Problem.__slots__), values, strict=True))
    return Problem(**fields)  # type: ignore[arg-type] # values come from __reduce__ alone


class ConfigError(KeyferryError):
    """A configuration Kubernetes would refuse; ``problems`` holds every one found."""

    def __init__(self, problems: tuple[Problem, ...], kubernetes_text: str = "") -> None:
        super().__init__(problems, kubernetes_text)
        self.problems = problems
        self.kubernetes_text = kubernetes_text or (problems[0].kubernetes_text if problems else "")

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class PluginError(KeyferryError):
    """A plugin that matched and did not give a usable answer."""

    cause = "error"
    seconds: float | None = None  # how long the run took, where there was one

    def __init__(self, plugin: str, message: str, kubernetes_text: str = "") -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.plugin = plugin
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}: {self.message}"


class PluginNotFoundError(PluginError):
    """The plugin's executable is missing."""

    cause = "not-found"

    def __init__(self, plugin: str, message: str, kubernetes_text: str = "", install_hint: str = "") -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.args = (plugin, message, kubernetes_text, install_hint)
        self.install_hint = install_hint


class PluginStartError(PluginError):
    """The plugin's executable is there and cannot be started."""

    cause = "start"


class PluginTimeoutError(PluginError):
    """The plugin did not finish in time; it and its process group were killed.

    With *was_killed* false, the time went by waiting for other lookups, and a run of theirs goes on.
    """

    cause = "timeout"

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

    cause = "exit"

    def __init__(self, plugin: str, status: int, kubernetes_text: str = "", stderr_tail: str = "") -> None:
        what = f"exited with status {status}" if status >= 0 else f"was killed by signal {-status}"
        super().__init__(plugin, what + _tail(stderr_tail), kubernetes_text)
        self.args = (plugin, status, kubernetes_text, stderr_tail)
        self.status = status
        self.stderr_tail = stderr_tail


class PluginOutputError(PluginError):
    """The plugin wrote more than it may; it and its process group were killed."""

    cause = "output"


class PluginProtocolError(PluginError):
    """The plugin's answer is not what the protocol asks for; no byte of it is quoted."""

    cause = "protocol"

    def __init__(
        self, plugin: str, problem: str, kubernetes_text: str = "", error_class: str = "other"
    ) -> None:
        super().__init__(plugin, problem, kubernetes_text)
        self.args = (plugin, problem, kubernetes_text, error_class)
        self.problem = problem
        self.error_class = error_class


class UnusableCertificateError(PluginProtocolError):
    """The plugin's certificate and key cannot be used; ``expires_ns`` is what its answer gave as expiry."""

    def __init__(self, plugin: str, problem: str, kubernetes_text: str, expires_ns: int | None) -> None:
        super().__init__(plugin, problem, kubernetes_text)
        self.args = (plugin, problem, kubernetes_text, expires_ns)
        self.expires_ns = expires_ns


_STATUS_CAUSES = {401: "refused", 403: "refused", 404: "not-found", 429: "throttled"}


def _tail(stderr_tail: str) -> str:
    return f"; it said: {stderr_tail}" if stderr_tail else ""
