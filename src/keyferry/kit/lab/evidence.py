"""The results of the runs, read as the kubelet or client-go reads them; rules are functions of this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from keyferry._core.secrets import in_one_line, stderr_tail
from keyferry._core.values import Value, field
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.clusters.auth.credential import ClusterCredential, read_credential
from keyferry.errors import EnvironmentProblem, PluginProtocolError
from keyferry.images.provider.plugin import decode_response, go_exit_text
from keyferry.invoke.run import Ending, ProcessOutcome
from keyferry.kit.lab.experiments import Experiment, Family, Surroundings
from keyferry.kit.lab.launch import Run
from keyferry.kit.lab.plugin_under_test import PluginUnderTest
from keyferry.kit.lab.secrets import Secrets
from keyferry.kit.plugin_kind import PluginKind

__all__ = [
    "A_FAILURE",
    "Evidence",
    "Rule",
    "Unchecked",
    "Violation",
    "failed",
    "is_reached",
    "stderr_text",
    "succeeded",
]

# The exit statuses of a program's own failures: klog.Fatalf exits with 255, the AWS CLI with 252 to 255. The
# statuses in between are a shell's, for a program that it cannot run and for a signal.
_OWN_STATUSES = (range(1, 126), range(252, 256))
NO_DURATION = "no response has a cacheDuration"
A_FAILURE = "an exit status from 1 to 125 or from 252 to 255, and a message"
# The requests that must have a valid response.
GOOD_EXPERIMENTS = (Family.NORMAL,)


class Violation(Value):
    """A violated requirement: the experiment, what was found and what was expected."""

    experiment: str
    found: str
    expected: str


class Unchecked(Exception):
    """The reason why a requirement could not be checked."""


class Evidence(Value):
    """Every run by the name of its experiment, and the state of the disk after the runs."""

    plugin: PluginUnderTest
    experiments: Mapping[str, Experiment]
    runs: Mapping[str, Run] = field(repr=False)
    secrets: Secrets
    around: Surroundings
    now_ns: int
    canary_made: bool = False

    def run(self, name: str) -> Run:
        """Return one run; raise Unchecked if it was not made."""
        if name not in self.runs:
            raise Unchecked("it was not run")
        return self.runs[name]

    def outcome(self, name: str) -> ProcessOutcome:
        """Return how one run ended, and what it printed."""
        return self.run(name).outcome

    def names(self, *selected: str) -> Iterator[str]:
        """Yield the experiments of *selected*, names and families, that were run, in the order of the list."""
        for name, experiment in self.experiments.items():
            if name in self.runs and experiment.is_one_of(selected):
                yield name

    def good_experiments(self) -> tuple[str, ...]:
        """Return the experiments that must have a valid response: one for each image, or one for the cluster."""
        return tuple(self.names(*GOOD_EXPERIMENTS))

    def valid_responses(self) -> list[str]:
        """Return the normal requests that have a valid response; raise Unchecked if there are none."""
        names = [name for name in self.good_experiments() if self.is_good(name)]
        if not names:
            raise Unchecked("there is no valid response to check")
        return names

    def version(self, name: str) -> str:
        """Return the apiVersion of an experiment's request."""
        return self.experiments[name].api_version or self.plugin.api_version

    def problem(self, name: str) -> PluginProtocolError | None:
        """Return Kubernetes' error for the response of a successful run; None if it is valid."""
        try:
            self._decode(name)
        except PluginProtocolError as error:
            error.__traceback__ = None  # its frames contain the response
            return error
        return None

    def response(self, name: str) -> CredentialProviderResponse:
        """Return the response of an image plugin; raise Unchecked if none can be decoded."""
        if succeeded(self.outcome(name)):
            try:
                return decode_response(self.plugin.name, self.version(name), self.outcome(name).stdout)
            except PluginProtocolError:
                pass
        raise Unchecked("there is no valid response to check")

    def credential(self, name: str) -> ClusterCredential:
        """Return the response of a cluster plugin; raise Unchecked if none can be decoded."""
        if succeeded(self.outcome(name)):
            try:
                return read_credential(self.version(name), self.outcome(name).stdout)
            except (PluginProtocolError, EnvironmentProblem):
                pass
        raise Unchecked("there is no valid response to check")

    def is_good(self, name: str) -> bool:
        """Return whether a run ended with a valid response."""
        return succeeded(self.outcome(name)) and self.problem(name) is None

    def require_good(self) -> None:
        """Raise Unchecked unless the plugin answers a normal request; else other failures have no meaning."""
        if not self.is_good("good"):
            raise Unchecked("the plugin returns no valid response to a normal request")

    def describe(self, name: str) -> str:
        """Return how a run ended, without secrets."""
        outcome = self.outcome(name)
        if outcome.ending is Ending.TIMED_OUT:
            return f"it did not end within {self.limit(name):g} s" + stderr_text(outcome, self.secrets)
        if outcome.ending is not Ending.EXITED or outcome.status is None:
            return f"it {outcome.ending}"
        problem = self.problem(name) if outcome.status == 0 else None
        if problem is not None:
            return f"exit status 0, but {problem.problem}"
        return go_exit_text(outcome.status) + stderr_text(outcome, self.secrets)

    def good_answer(self) -> str:
        """Return the expected result of a normal request, with a hint if the plugin may require HOME."""
        if "HOME" in dict(self.plugin.env):
            return "exit status 0 and a valid response"
        return "exit status 0 and a valid response (its HOME was empty: pass yours with --env HOME=$HOME)"

    def limit(self, name: str) -> float:
        """Return the time limit of a run, in seconds."""
        return limit_for(self.plugin, self.experiments[name])

    def _decode(self, name: str) -> None:
        stdout = self.outcome(name).stdout
        if self.plugin.kind == PluginKind.IMAGE:
            decode_response(self.plugin.name, self.version(name), stdout)
            return
        try:
            read_credential(self.version(name), stdout, plugin=self.plugin.name)
        except EnvironmentProblem:
            return  # certificates cannot be parsed here; the rule about them reports that


class Rule(Value):
    """The implementation of a check: the names and families of its experiments, and the function that judges them."""

    needs: tuple[str, ...]
    judge: Callable[[Evidence], Iterator[Violation]]


# A plugin refuses invalid input before any slow work, so that a shorter limit is enough.
_SOON_SECONDS = 15.0


def limit_for(plugin: PluginUnderTest, experiment: Experiment) -> float:
    """Return the time limit of an experiment, in seconds."""
    is_question = experiment.is_patient or experiment.family is Family.NORMAL
    return plugin.timeout_seconds if is_question else min(plugin.timeout_seconds, _SOON_SECONDS)


def is_reached(code: str, found: str, order: tuple[tuple[str, ...], ...]) -> bool:
    """Return whether the checks got as far as *code*, if *found* is the code of the first problem.

    *order* lists the codes in the order of the checks; of codes in one group, only the found one is reached.
    """
    if not found or code == found:
        return True
    places = {each: at for at, codes in enumerate(order) for each in codes}
    return places[code] < places[found]


def succeeded(outcome: ProcessOutcome) -> bool:
    """Return whether a run exited with status 0."""
    return outcome.ending is Ending.EXITED and outcome.status == 0


def failed(outcome: ProcessOutcome) -> bool:
    """Return whether a run exited with a status that reports a failure of its own."""
    return outcome.ending is Ending.EXITED and any(outcome.status in statuses for statuses in _OWN_STATUSES)


def stderr_text(outcome: ProcessOutcome, secrets: Secrets) -> str:
    """Return the end of a run's standard error, without secrets, as the end of a sentence."""
    tail = secrets.hide(in_one_line(stderr_tail(outcome.stderr, tuple(secrets.texts))))
    return f"; standard error: {tail}" if tail else "; standard error is empty"
