"""What the runs of a plugin have shown, read as the kubelet or client-go reads it; checks are functions of this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from keyferry._core.secrets import in_one_line, stderr_tail
from keyferry._core.values import Value, field, replace
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.clusters.auth.credential import ClusterCredential, read_credential
from keyferry.errors import EnvironmentProblem, PluginProtocolError
from keyferry.images.provider.plugin import decode_response, go_exit_text
from keyferry.invoke.run import Ending, ProcessOutcome
from keyferry.kit.lab.experiments import Experiment, Surroundings, limit_for
from keyferry.kit.lab.launch import Run
from keyferry.kit.lab.secrets import Secrets
from keyferry.kit.plugin import PluginKind, PluginUnderTest

__all__ = ["A_FAILURE", "NO_RESPONSE", "Evidence", "Observation", "Unchecked", "Violation"]

A_FAILURE = "an exit status from 1 to 125 or from 252 to 255, and a message"
NO_RESPONSE = "there is no valid response to check"
# The exit statuses of a program's own failures: klog.Fatalf exits with 255, the AWS CLI with 252 to 255. The
# statuses in between are a shell's, for a program that it cannot run and for a signal.
_OWN_STATUSES = (*range(1, 126), *range(252, 256))


class Violation(Value):
    """A violated requirement: the experiment, what was found and what was expected."""

    experiment: str
    found: str
    expected: str


class Unchecked(Exception):
    """The reason why a requirement could not be checked."""


class Observation(Value):
    """One experiment and its run; the response is read once."""

    plugin: PluginUnderTest
    experiment: Experiment
    run: Run = field(repr=False)
    secrets: Secrets

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def outcome(self) -> ProcessOutcome:
        """How the run ended, and what it printed."""
        return self.run.outcome

    @property
    def api_version(self) -> str:
        """The apiVersion of the request."""
        return self.experiment.api_version or self.plugin.api_version

    @property
    def limit_seconds(self) -> float:
        """The time limit of the run."""
        return limit_for(self.plugin, self.experiment)

    @property
    def has_succeeded(self) -> bool:
        """Whether the run exited with status 0."""
        return self.outcome.ending is Ending.EXITED and self.outcome.status == 0

    @property
    def has_failed(self) -> bool:
        """Whether the run exited with a status that reports a failure of its own."""
        return self.outcome.ending is Ending.EXITED and self.outcome.status in _OWN_STATUSES

    @property
    def was_refused(self) -> bool:
        """Whether the run exited with any status other than 0."""
        return self.outcome.ending is Ending.EXITED and self.outcome.status != 0

    @property
    def is_good(self) -> bool:
        """Whether the run ended with a valid response."""
        return self.has_succeeded and self.problem is None

    @cached_property
    def _reading(self) -> CredentialProviderResponse | ClusterCredential | PluginProtocolError | None:
        """The output as Kubernetes reads it, or its error; None if certificates cannot be parsed on this machine."""
        name, version, stdout = self.plugin.name, self.api_version, self.outcome.stdout
        try:
            if self.plugin.kind is PluginKind.IMAGE:
                return decode_response(name, version, stdout)
            return read_credential(version, stdout, plugin=name)
        except PluginProtocolError as error:
            error.__traceback__ = None  # its frames contain the response
            return error
        except EnvironmentProblem:
            return None  # the check of certificates reports it

    @property
    def problem(self) -> PluginProtocolError | None:
        """Kubernetes' error for the output; None if that is valid."""
        return self._reading if isinstance(self._reading, PluginProtocolError) else None

    @property
    def response(self) -> CredentialProviderResponse:
        """The response of an image plugin; raise Unchecked if there is no valid one."""
        if self.has_succeeded and isinstance(self._reading, CredentialProviderResponse):
            return self._reading
        raise Unchecked(NO_RESPONSE)

    @property
    def credential(self) -> ClusterCredential:
        """The response of a cluster plugin; raise Unchecked if there is no valid one."""
        if self.has_succeeded and isinstance(self._reading, ClusterCredential):
            return self._reading
        raise Unchecked(NO_RESPONSE)

    def violation(self, found: str, expected: str) -> Violation:
        """Return a violation that this run shows."""
        return Violation(experiment=self.name, found=found, expected=expected)

    def describe(self) -> str:
        """Return how the run ended, without secrets."""
        ending, status = self.outcome.ending, self.outcome.status
        if ending is Ending.TIMED_OUT:
            return f"it did not end within {self.limit_seconds:g} s{self._stderr()}"
        if ending is not Ending.EXITED or status is None:
            return f"it {ending}"
        if status == 0 and self.problem is not None:
            return f"exit status 0, but {self.problem.problem}"
        return go_exit_text(status) + self._stderr()

    def _stderr(self) -> str:
        """Return the end of standard error, without secrets, as the end of a sentence."""
        tail = in_one_line(stderr_tail(self.outcome.stderr, tuple(self.secrets.texts)))
        return f"; standard error: {self.secrets.hide(tail)}" if tail else "; standard error is empty"


class Evidence(Value):
    """All observations by the name of their experiment, in the order of the list, and the state of the disk after them.

    *selected* are those that a check needs. *has_secrets* tells whether a response contains a secret to search for.
    """

    plugin: PluginUnderTest
    observations: Mapping[str, Observation]
    secrets: Secrets
    around: Surroundings
    now_ns: int
    has_secrets: bool = False
    canary_made: bool = False
    selected: tuple[Observation, ...] = ()

    def __getitem__(self, name: str) -> Observation:
        """Return one observation; raise Unchecked if the experiment was not run."""
        if name not in self.observations:
            raise Unchecked("it was not run")
        return self.observations[name]

    def select(self, needs: Collection[str]) -> Evidence:
        """Return the evidence for a check that *needs* some experiments, by name or family."""
        selected = tuple(
            each
            for each in self.observations.values()
            if each.experiment.name in needs or each.experiment.family in needs
        )
        return replace(self, selected=selected)

    def valid_responses(self) -> list[Observation]:
        """Return the selected observations with a valid response; raise Unchecked if there are none."""
        valid = [each for each in self.selected if each.is_good]
        if not valid:
            raise Unchecked(NO_RESPONSE)
        return valid

    def require_good(self) -> None:
        """Raise Unchecked unless the plugin answers a normal request; else other failures have no meaning."""
        if not self["good"].is_good:
            raise Unchecked("the plugin returns no valid response to a normal request")

    def good_answer(self) -> str:
        """Return the expected result of a normal request, with a hint if the plugin may require HOME."""
        if "HOME" in dict(self.plugin.env):
            return "exit status 0 and a valid response"
        return "exit status 0 and a valid response (its HOME was empty: pass yours with --env HOME=$HOME)"
