"""Running one plugin as the kubelet does, and decoding its response strictly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from math import inf
from time import monotonic

from keyferry._core.gotext import go_strerror
from keyferry._core.host_root import is_on_host, on_host
from keyferry._core.json import loads_with_duplicates
from keyferry._core.program.start import describe_start_problem
from keyferry._core.secrets import secret_arguments, secret_values, stderr_tail
from keyferry._core.values import Value, field, replace
from keyferry.api.codec import (
    WrongTypeError,
    interpret,
    kubernetes_failure,
    shown_api_version,
)
from keyferry.api.credentialprovider.v1 import (
    CredentialProviderRequest,
    CredentialProviderResponse,
    encode_request,
)
from keyferry.api.kubeletconfig.kinds import known_fields
from keyferry.api.wire import Reader, anything
from keyferry.errors import (
    DocumentError,
    Fault,
    Kind,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
)
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, run
from keyferry.invoke.shim import program_behind

_KIND = "CredentialProviderResponse"
_DECODING = "error decoding credential provider plugin response from stdout"


class ExecPlugin(Value):
    """A plugin that is an executable: its path, arguments, environment and limits.

    With *root*, that folder is its root (``chroot``), and *path* is below it. *listen* receives the whole lines of its
    standard error, and returns those that messages may quote.
    """

    name: str
    path: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    withhold: frozenset[str] = frozenset()
    limits: Limits = Limits()
    environ: Mapping[bytes, bytes] | None = field(default=None, repr=False)
    listen: Callable[[bytes], bytes] | None = field(default=None, repr=False)
    root: str = ""

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        """Run the plugin once; return its response and the duration in seconds, or raise PluginError."""
        allowed = self.limits.timeout_seconds if timeout_seconds is None else timeout_seconds
        until = monotonic() + allowed
        outcome = self._run(request, timeout_seconds)
        if self.listen is not None:
            outcome = replace(outcome, stderr=self.listen(self._whole_lines(outcome.stderr)))
        try:
            if outcome.ending is not Ending.EXITED or outcome.status != 0:
                raise self._failure(request, outcome, allowed)
            return decode_response(self.name, self.api_version, outcome.stdout, until), outcome.seconds
        except PluginError as error:
            error.seconds = outcome.seconds
            raise

    def _run(self, request: CredentialProviderRequest, timeout_seconds: float | None) -> ProcessOutcome:
        limits = self.limits
        if timeout_seconds is not None:
            limits = replace(limits, timeout_seconds=timeout_seconds)
        problem: OSError | ValueError
        if self.env and any("\0" in name + value for name, value in self.env):
            raise self._nul_failure(request.image)
        try:
            return run(
                (program_behind(self.path), *self.args),
                stdin=encode_request(request, self.api_version),
                environ=child_environment(self.env, self.withhold, self.environ),
                limits=limits,
                root=self.root,
            )
        except (OSError, ValueError) as error:
            problem = error
        raise self._start_failure(request.image, problem)

    def _nul_failure(self, image: str) -> PluginError:
        # Go checks the environment before it searches the executable.
        text = self._kubernetes_text(image, "exec: environment variable contains NUL", b"")
        return PluginStartError(self.name, "an environment variable for the plugin contains a NUL", text)

    def _start_failure(self, image: str, error: OSError | ValueError) -> PluginError:
        reason = go_strerror(error)
        text = self._kubernetes_text(image, f"fork/exec {self.path}: {reason}", b"")
        if isinstance(error, FileNotFoundError) and not is_on_host(self.path):
            message = f"the executable {self.path} is missing"
            return PluginNotFoundError(
                self.name, message, text, path=self.path, folder_changed_ns=_changed_ns(self.path)
            )
        problem = describe_start_problem(self.path, error, on_host)
        return PluginStartError(self.name, f"the executable {self.path} {problem}", text)

    def _failure(
        self, request: CredentialProviderRequest, outcome: ProcessOutcome, allowed_seconds: float
    ) -> PluginError:
        tail = stderr_tail(self._whole_lines(outcome.stderr), self._secrets(request))
        if outcome.ending is Ending.TIMED_OUT:
            text = self._kubernetes_text(request.image, "context deadline exceeded", outcome.stderr)
            return PluginTimeoutError(self.name, allowed_seconds, text, tail)
        if outcome.ending is Ending.LOST:
            message = f"its exit status is unknown: it {outcome.ending}"
            text = self._kubernetes_text(request.image, "waitid: no child processes", outcome.stderr)
            return PluginStartError(self.name, message, text)
        if outcome.ending is not Ending.EXITED or outcome.status is None:
            return self._flood(outcome)
        cause = go_exit_text(outcome.status)
        text = self._kubernetes_text(request.image, cause, outcome.stderr)
        return PluginExitError(self.name, outcome.status, text, tail)

    def _flood(self, outcome: ProcessOutcome) -> PluginError:
        limit = (
            self.limits.stdout_bytes
            if outcome.ending is Ending.STDOUT_LIMIT
            else self.limits.stderr_drained_bytes
        )
        return PluginOutputError(self.name, f"{outcome.ending}, over {limit} bytes, and was killed")

    def _whole_lines(self, stderr: bytes) -> bytes:
        """Return *stderr* without a first line that the limit cut: part of a secret would not be masked."""
        return stderr if len(stderr) < self.limits.stderr_bytes else stderr.partition(b"\n")[2]

    def _kubernetes_text(self, image: str, cause: str, stderr: bytes) -> str:
        said = stderr.decode("utf-8", "replace")
        return f"error execing credential provider plugin {self.name} for image {image}: {cause}: {said}"

    def _secrets(self, request: CredentialProviderRequest) -> tuple[str, ...]:
        return (request.service_account_token, *secret_values(self.env), *secret_arguments(self.args))


def _changed_ns(path: str) -> int | None:
    """Return when the folder of *path* was changed last, or None if that cannot be read."""
    try:
        return os.stat(on_host(os.path.dirname(path))).st_mtime_ns
    except OSError:
        return None


def decode_response(
    plugin: str, api_version: str, stdout: bytes, until: float = inf
) -> CredentialProviderResponse:
    """Decode a plugin's response as the kubelet does; errors do not quote it.

    A response that is not parsed before the instant *until* of the monotonic clock is refused.
    """
    try:
        document, duplicates = loads_with_duplicates(stdout)
        if monotonic() >= until:
            raise PluginOutputError(plugin, "its response could not be parsed within its timeout")
        found, kind = interpret(document)
    except DocumentError as error:
        failure = _unreadable(
            plugin, "its standard output is not one JSON object", error.kubernetes_text, Kind.JSON_SYNTAX
        )
    except WrongTypeError as error:
        failure = _unreadable(
            plugin, "its standard output is not one JSON object", error.decoder_text, Kind.WRONG_TYPE
        )
    else:
        return _decode(plugin, api_version, (found, kind), document, duplicates)
    # Raised outside the except block: the decoder's exception may hold the document.
    raise failure


def _unreadable(plugin: str, message: str, text: str, kind: Kind) -> PluginProtocolError:
    prefix = "error reading GVK from response: couldn't get version/kind; json parse error: "
    return PluginProtocolError(plugin, message, prefix + text, kind, Fault.SYNTAX)


def _decode(
    plugin: str,
    api_version: str,
    found: tuple[str, str],
    document: object,
    duplicates: tuple[tuple[str | int, ...], ...],
) -> CredentialProviderResponse:
    if found[0].count("/") > 1:
        text = "error reading GVK from response: unexpected GroupVersion string: " + found[0]
        message = "the apiVersion of its response has more than one '/'"
        raise PluginProtocolError(plugin, message, text, fault=Fault.GROUP_VERSION)
    # Kubernetes prints an empty group without its slash.
    answered = found[0].removeprefix("/")
    if answered != api_version:
        text = (
            "apiVersion from credential plugin response did not match "
            f"expected apiVersion:{api_version}, actual apiVersion:{answered}"
        )
        message = _version_message(api_version, answered)
        raise PluginProtocolError(plugin, message, text, fault=Fault.VERSION)
    reader = Reader(duplicates)
    if found[1] != _KIND:
        message = f"the kind of its response is not {_KIND!r}"
        hidden = _wrong_kind(*found, document, reader)
        raise PluginProtocolError(plugin, message, _DECODING, hidden, Fault.KIND)
    response = CredentialProviderResponse.from_document(document, reader)
    failure = kubernetes_failure(reader.problems)
    if failure is not None:
        is_duration = reader.problems[0][0][:1] == ("cacheDuration",)
        fault = Fault.DURATION if is_duration else Fault.FIELD
        raise PluginProtocolError(plugin, _shape_message(reader), _DECODING, failure.kind, fault)
    return response


def _wrong_kind(api_version: str, kind: str, document: object, reader: Reader) -> Kind:
    """Return the kind of the error that Kubernetes hides if the document is not a response."""
    fields = known_fields(api_version, kind)
    if fields is None:
        return Kind.UNKNOWN_TYPE if kind else Kind.MISSING_KIND
    reader.struct(document, (), dict.fromkeys(fields, anything))
    return Kind.STRICT if reader.problems else Kind.OTHER


def _version_message(expected: str, answered: str) -> str:
    return f"the apiVersion of its response is {shown_api_version(answered)}, expected {expected!r}"


def _shape_message(reader: Reader) -> str:
    """Return a message by field, without auth keys and unknown names, which may be secrets."""
    (path, problem), *rest = reader.problems
    name = next((str(part) for part in path[:1] if part in _FIELDS), "")
    field_name = name or "a field"
    more = f"; its other problems: {len(rest)}" if rest else ""
    if problem.kind is Kind.DURATION:
        return f"{field_name} of its response is not a Go duration such as '10m'{more}"
    if problem.kind is Kind.WRONG_TYPE:
        return f"{field_name} of its response: {problem.message}{more}"
    where = f"{name} of its response" if name else "its response"
    return f"{where} has an unknown or repeated field{more}"


_FIELDS = ("kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth")


def child_environment(
    env: Iterable[tuple[str, str]], withhold: frozenset[str], environ: Mapping[bytes, bytes] | None = None
) -> Mapping[bytes, bytes] | None:
    """Return *environ*, by default that of this process, without *withhold* and with *env*, whose last value counts.

    None stands for the environment of this process, unchanged.
    """
    if not env and not withhold:
        return environ
    merged = _own_environment() if environ is None else dict(environ)
    for name in withhold:
        merged.pop(os.fsencode(name), None)
    for name, value in env:
        # A name in a config may contain '=', which ends the name for the program.
        key, _, rest = f"{name}={value}".partition("=")
        if key:
            merged[os.fsencode(key)] = os.fsencode(rest)
        # A variable without a name, "=value", is dropped: Python cannot pass it, and programs cannot read it.
    return merged


def _own_environment() -> dict[bytes, bytes]:
    """Return a copy of this process's environment, from which another thread may remove variables meanwhile."""
    values = {name: os.environb.get(name) for name in list(os.environb)}
    return {name: value for name, value in values.items() if value is not None}


def encode_environment(environ: Mapping[str, str]) -> Mapping[bytes, bytes]:
    """Return an environment as bytes, encoded for the operating system."""
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}


_GO_SIGNALS = {
    1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 5: "trace/breakpoint trap", 6: "aborted",
    7: "bus error", 8: "floating point exception", 9: "killed", 10: "user defined signal 1",
    11: "segmentation fault", 12: "user defined signal 2", 13: "broken pipe", 14: "alarm clock", 15: "terminated",
}  # fmt: skip


def go_exit_text(status: int) -> str:
    """Return Go's text for an exit status."""
    if status >= 0:
        return f"exit status {status}"
    return f"signal: {_GO_SIGNALS.get(-status, f'signal {-status}')}"


Plugin = Callable[[CredentialProviderRequest, float | None], tuple[CredentialProviderResponse, float]]
