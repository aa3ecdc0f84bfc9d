"""Run the plugin of one exec config as client-go does: policy, input, and the errors of a failed run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from math import inf
from threading import Lock
from time import monotonic

from keyferry._core.clock import monotonic_ns
from keyferry._core.gotext import go_strerror, quote
from keyferry._core.log import log_debug
from keyferry._core.program.start import describe_start_problem
from keyferry._core.secrets import in_one_line, printable, secret_arguments, secret_values, stderr_tail
from keyferry.api.clientauthentication.v1 import API_VERSIONS, ClusterInfo, encode_exec_info
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.auth.call_metrics import CALLS, INTERNAL_ERROR, NO_ERROR, NOT_FOUND, PLUGIN_ERROR
from keyferry.clusters.auth.credential import ClusterCredential, read_credential
from keyferry.clusters.auth.plugin_environment import (
    check_size,
    merge_entries,
    plugin_entries,
    process_entries,
    to_mapping,
)
from keyferry.errors import (
    EnvironmentProblem,
    KubeconfigError,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    PolicyError,
    Problem,
)
from keyferry.invoke.executable import clean_path
from keyferry.invoke.policy import PluginPolicy, open_pinned
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, Tail, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Recorder(Protocol):
        """An object that receives each plugin run and each decision of the plugin policy."""

        def called(self, code: int, call_status: str) -> None:
            """Record a run by its exit code: -1 if a signal ended it, 1 if the plugin could not be started."""

        def decided(self, outcome: str) -> None:
            """Record a decision of the policy, ``allowed`` or ``denied``."""


NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"
# As much of a plugin's output is searched for secrets that its standard error may repeat.
_MAX_SEARCHED, _MAX_WORDS = 64 * 1024, 200
_DELIMITERS = str.maketrans(dict.fromkeys("\"',:{}[]\\", " "))
_HOUR_NS = 3600 * 1_000_000_000
_HELP = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""
_NO_POLICY = PluginPolicy()
_LIMITS = Limits()


def is_interactive(mode: str, *, terminal: bool, stdin_unavailable: bool = False, message: str = "") -> bool:
    """Return whether a plugin may prompt the user. Raises EnvironmentProblem if it must and cannot."""
    if mode == NEVER:
        return False
    if mode == IF_AVAILABLE:
        return terminal and not stdin_unavailable
    if mode != ALWAYS:
        raise EnvironmentProblem(
            f"unknown interactiveMode {mode!r}", f"unknown interactiveMode: {quote(mode)}"
        )
    if not terminal:
        raise EnvironmentProblem("standard input is not a terminal")
    if stdin_unavailable:
        raise EnvironmentProblem("standard input is unavailable" + (f": {message}" if message else ""))
    return True


class HintLimiter:
    """A limit of *most* help texts an hour, so that a controller that retries does not fill its log.

    The hour starts with the first help text, and again with the first one after it is over.
    """

    def __init__(self, most: int = 10, *, clock: Callable[[], int] = monotonic_ns) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._began_ns: int | None = None
        self._count = 0

    def take(self) -> bool:
        """Return whether the help text may be shown now, and count it if so."""
        with self._lock:
            now = self._clock()
            if self._began_ns is None or now - self._began_ns >= _HOUR_NS:
                self._began_ns, self._count = now, 0
            if self._count >= self._most:
                return False
            self._count += 1
            return True


class ExecRunner:
    """The plugin of one exec config. It can be shared between threads.

    A plugin that may prompt writes to *stderr_fd* itself. The standard error of any other one becomes part of the
    error if it fails, with secrets masked, and is logged at the level DEBUG if it does not; *stderr_tail* keeps its end
    in both cases. *hints*, *recorder*, *environ*, *terminal* and the descriptors take the place of this process's
    in tests.
    Raises ConfigError for an apiVersion and PolicyError for a policy that client-go rejects.
    """

    def __init__(
        self,
        config: ExecConfig,
        cluster: ClusterInfo | None = None,
        *,
        policy: PluginPolicy = _NO_POLICY,
        stdin_unavailable: bool = False,
        stdin_unavailable_message: str = "",
        limits: Limits = _LIMITS,
        hints: HintLimiter | None = None,
        recorder: Recorder = CALLS,
        environ: Callable[[], Iterable[bytes]] = process_entries,
        terminal: Callable[[], bool] = lambda: os.isatty(0),
        stdin_fd: int = 0,
        stderr_fd: int = 2,
        stderr_tail: Tail | None = None,
    ) -> None:
        _check(config.api_version, policy)
        self._config = config
        self._command = clean_path(config.command)
        self._cluster = cluster if config.provide_cluster_info else None
        self._policy = policy
        self._stdin_unavailable = stdin_unavailable
        self._stdin_unavailable_message = stdin_unavailable_message
        self._limits = limits
        self._hints = hints or HintLimiter()
        self._recorder = recorder
        self._environ = environ
        self._terminal = terminal
        self._fds = stdin_fd, stderr_fd
        self._stderr_tail = stderr_tail

    @property
    def command(self) -> str:
        """The cleaned command, which is searched for and shown in messages."""
        return self._command

    def credential(self) -> ClusterCredential:
        """Run the plugin and return its credential. Raises PluginError, PolicyError or DocumentError."""
        outcome, until = self._run()
        stdout = outcome.stdout
        failure: PluginError
        try:
            credential = read_credential(self._config.api_version, stdout, plugin=self._command, until=until)
        except PluginProtocolError as error:
            failure = error
        except TimeoutError:
            seconds = self._limits.timeout_seconds
            message = f"its answer cannot be parsed within its time limit of {seconds:g} s"
            failure = PluginOutputError(self._command, message)
        else:
            self._log(outcome, credential)
            return credential
        failure.stderr_tail = self._reason(outcome)
        # The frames of the traceback, this one included, hold the plugin's output.
        del outcome, stdout
        failure.__traceback__ = None
        raise failure

    def _run(self) -> tuple[ProcessOutcome, float]:
        """Return the outcome of a successful run, and its deadline on the monotonic clock."""
        interactive = self._decide_interactive()
        if self._stderr_tail is not None:
            self._stderr_tail.clear()
        info = encode_exec_info(self._config.api_version, self._cluster, interactive=interactive)
        path, program = self._ask_policy()
        until = monotonic() + self._limits_for(interactive=interactive).timeout_seconds
        try:
            outcome = self._execute(path, program, info, interactive=interactive)
        finally:
            if isinstance(program, int):
                os.close(program)
        log_debug("clusters", "plugin %s ran for %.1f ms", self._config.command, outcome.seconds * 1000)
        if outcome.ending is not Ending.EXITED or outcome.status != 0:
            failure = self._failure(outcome)
            failure.seconds = outcome.seconds
            del outcome
            raise failure
        self._recorder.called(0, NO_ERROR)
        return outcome, until

    def _decide_interactive(self) -> bool:
        try:
            return is_interactive(
                self._config.interactive_mode,
                terminal=self._terminal(),
                stdin_unavailable=self._stdin_unavailable,
                message=self._stdin_unavailable_message,
            )
        except EnvironmentProblem as error:
            text = f"exec plugin cannot support interactive mode: {error.kubernetes_text}"
            message = f"its interactiveMode cannot be used: {error.message}"
            failure = PluginStartError(self._command, message, text)
        raise failure

    def _ask_policy(self) -> tuple[str, str | int]:
        """Return the path of the permitted program, and the path or the descriptor to execute.

        It is a descriptor if the policy has a digest for the program, which was checked through that descriptor.
        """
        missing: OSError | None = None
        program: str | int
        try:
            permit = self._policy.decide(self._command)
            is_pinned = permit.digests and not permit.problem
            program = open_pinned(permit.path, permit.digests) if is_pinned else permit.path
        except PolicyError:
            self._recorder.decided("denied")
            raise
        except OSError as error:
            missing = error
        self._recorder.decided("allowed")
        if permit.problem:
            raise self._not_found()
        if missing is not None:
            raise self._not_started(permit.path, missing)
        return permit.path, program

    def _execute(self, path: str, program: str | int, info: str, *, interactive: bool) -> ProcessOutcome:
        problem: OSError | ValueError
        environ = self._environment(path, info)
        try:
            return run(
                (self._command, *(self._config.args or ())),
                program=program,
                stdin=None,
                environ=environ,
                limits=self._limits_for(interactive=interactive),
                terminal=self._fds if interactive else None,
                stderr_tail=self._stderr_tail or Tail(),
            )
        except (OSError, ValueError) as error:
            problem = error
        raise self._not_started(path, problem)

    def _environment(self, path: str, info: str) -> dict[bytes, bytes]:
        pairs = ((variable.name, variable.value) for variable in self._config.env)
        status, text = INTERNAL_ERROR, "exec: "
        try:
            entries = merge_entries(plugin_entries(self._environ(), pairs, info))
            status, text = NOT_FOUND, f"exec: fork/exec {path}: "
            check_size(info)
            return to_mapping(entries)
        except EnvironmentProblem as error:
            failure = PluginStartError(self._command, error.message, text + error.kubernetes_text)
        self._recorder.called(1, status)
        raise failure

    def _limits_for(self, *, interactive: bool) -> Limits:
        if not interactive:
            return self._limits
        # There is no time limit for a user's input; the user can interrupt the run.
        return Limits(timeout_seconds=inf, stdout_bytes=self._limits.stdout_bytes)

    def _log(self, outcome: ProcessOutcome, credential: ClusterCredential) -> None:
        """Log what a plugin wrote on standard error although it succeeded, such as a warning."""
        if outcome.stderr:
            known = (*self._secrets(), credential.token, credential.key_pem)
            said = in_one_line(stderr_tail(outcome.stderr, known))
            log_debug("clusters", "plugin %s wrote on standard error: %s", self._config.command, said)

    def _reason(self, outcome: ProcessOutcome) -> str:
        """Return the end of the plugin's standard error, without secrets and without anything of its output."""
        if not outcome.stderr:
            return ""
        printed = outcome.stdout[:_MAX_SEARCHED].decode("utf-8", "replace")
        words = (("", word) for word in printed.translate(_DELIMITERS).split()[:_MAX_WORDS])
        return stderr_tail(outcome.stderr, (*self._secrets(), *secret_values(words)))

    def _secrets(self) -> tuple[str, ...]:
        """Return the secrets that the plugin knows from the kubeconfig."""
        pairs = ((variable.name, variable.value) for variable in self._config.env)
        return (*secret_arguments(self._config.args or ()), *secret_values(pairs))

    def _failure(self, outcome: ProcessOutcome) -> PluginError:
        if outcome.ending is Ending.LOST:
            self._recorder.called(1, INTERNAL_ERROR)
            message = f"its exit status is unknown: it {outcome.ending}"
            return PluginStartError(self._command, message, "exec: waitid: no child processes")
        exited = outcome.ending is Ending.EXITED and outcome.status is not None
        code = max(outcome.status or 0, -1) if exited else -1
        self._recorder.called(code, PLUGIN_ERROR)
        text = f"exec: executable {self._command} failed with exit code {code}"
        if exited:
            return PluginExitError(self._command, outcome.status or 0, text, self._reason(outcome))
        if outcome.ending is Ending.TIMED_OUT:
            seconds = self._limits.timeout_seconds
            return PluginTimeoutError(self._command, seconds, text, self._reason(outcome))
        message = f"{outcome.ending}, over {self._limits.stdout_bytes} bytes, and was killed"
        failure = PluginOutputError(self._command, message, text)
        failure.stderr_tail = self._reason(outcome)
        return failure

    def _not_found(self) -> PluginNotFoundError:
        self._recorder.called(1, NOT_FOUND)
        with_help = self._hints.take()
        hint = self._config.install_hint if with_help else ""
        message = "the executable is not found in PATH" + (
            f"; to install it: {printable(' '.join(hint.split()))}" if hint else ""
        )
        text = f"exec: executable {self._command} not found"
        if with_help:
            text += _HELP + (f"\n\n{hint}" if hint else "")
        return PluginNotFoundError(self._command, message, text, hint)

    def _not_started(self, path: str, error: OSError | ValueError) -> PluginError:
        self._recorder.called(1, NOT_FOUND)
        reason = go_strerror(error)
        text = f"exec: fork/exec {path}: {reason}"
        if isinstance(error, FileNotFoundError) and not os.path.exists(path):
            return PluginNotFoundError(self._command, f"the executable {path} is missing", text)
        problem = describe_start_problem(path, error)
        return PluginStartError(self._command, f"the executable {path} {problem}", text)


def _check(api_version: str, policy: PluginPolicy) -> None:
    if api_version not in API_VERSIONS:
        expected = " or ".join(map(repr, API_VERSIONS))
        text = f"exec plugin: invalid apiVersion {quote(api_version)}"
        problem = Problem("exec.apiVersion", f"{api_version!r} is not {expected}", kubernetes_text=text)
        raise KubeconfigError((problem,))
    try:
        policy.validate()
    except PolicyError as error:
        message, text = error.message, f"invalid plugin policy: {error.kubernetes_text}"
    else:
        return
    raise PolicyError(message, text)
