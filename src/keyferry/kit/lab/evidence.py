"""What the runs have shown, and how the kubelet or client-go would read it; rules are functions of this."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from keyferry._core.secrets import stderr_tail
from keyferry._core.values import Value, field
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.clusters.auth.credential import ClusterCredential, read_credential
from keyferry.errors import EnvironmentProblem, PluginProtocolError
from keyferry.images.provider.plugin import decode_response, go_exit_text
from keyferry.invoke.process import Ending, ProcessOutcome
from keyferry.kit.lab.experiments import Experiment, Surroundings
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

# What a program's own failures end with: klog.Fatalf with 255, the AWS CLI with 252 to 255. In between stand those
# of a shell, for a program that it cannot run and for a signal.
_OWN_STATUSES = (range(1, 126), range(252, 256))
A_FAILURE = "a status from 1 to 125, or from 252, and a message"
# The questions that must have a good answer.
GOOD_EXPERIMENTS = ("good", "good *")


class Violation(Value):
    """A promise broken: in which experiment, what was found and what was expected."""

    experiment: str
    found: str
    expected: str


class Unchecked(Exception):
    """Why something could not be checked."""


class Evidence(Value):
    """Every run by its experiment's name, and what was found on disk after them."""

    plugin: PluginUnderTest
    experiments: Mapping[str, Experiment]
    runs: Mapping[str, Run] = field(repr=False)
    secrets: Secrets
    around: Surroundings
    now_ns: int
    canary_made: bool = False

    def run(self, name: str) -> Run:
        """One run; Unchecked if it was not made."""
        if name not in self.runs:
            raise Unchecked("it was not run")
        return self.runs[name]

    def outcome(self, name: str) -> ProcessOutcome:
        """How one run ended, and what it printed."""
        return self.run(name).outcome

    def names(self, *patterns: str) -> Iterator[str]:
        """The experiments that were run and match one of the patterns, in the order they are listed."""
        for name in self.experiments:
            if name in self.runs and any(fnmatchcase(name, pattern) for pattern in patterns):
                yield name

    def good_experiments(self) -> tuple[str, ...]:
        """The experiments that must have a good answer: each image, or the cluster, asked for once."""
        return tuple(self.names(*GOOD_EXPERIMENTS))

    def version(self, name: str) -> str:
        """The apiVersion that an experiment was asked in."""
        return self.experiments[name].api_version or self.plugin.api_version

    def problem(self, name: str) -> PluginProtocolError | None:
        """What Kubernetes would say against the answer of a run that ended well; None if nothing."""
        try:
            self._decode(name)
        except PluginProtocolError as error:
            error.__traceback__ = None  # its frames hold the answer
            return error
        return None

    def response(self, name: str) -> CredentialProviderResponse:
        """The answer of an image plugin; Unchecked if there is none that decodes."""
        if succeeded(self.outcome(name)):
            try:
                return decode_response(self.plugin.name, self.version(name), self.outcome(name).stdout)
            except PluginProtocolError:
                pass
        raise Unchecked("there is no answer to look at")

    def credential(self, name: str) -> ClusterCredential:
        """The answer of a cluster plugin; Unchecked if there is none that decodes."""
        if succeeded(self.outcome(name)):
            try:
                return read_credential(self.version(name), self.outcome(name).stdout)
            except (PluginProtocolError, EnvironmentProblem):
                pass
        raise Unchecked("there is no answer to look at")

    def is_good(self, name: str) -> bool:
        """Tell whether a run ended with an answer that decodes."""
        return succeeded(self.outcome(name)) and self.problem(name) is None

    def require_good(self) -> None:
        """Unchecked unless the plugin answers well when all is well: then other failures say something."""
        if not self.is_good("good"):
            raise Unchecked("the plugin gives no good answer to begin with")

    def describe(self, name: str) -> str:
        """How a run ended, in words without secrets."""
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
        """What is expected of a good question; with a hint where the plugin may miss its home."""
        if "HOME" in dict(self.plugin.env):
            return "exit status 0 and an answer"
        return "exit status 0 and an answer (its HOME was empty: if it needs yours, say --env HOME=$HOME)"

    def limit(self, name: str) -> float:
        """How long a run was allowed to take."""
        return limit_for(self.plugin, self.experiments[name])

    def _decode(self, name: str) -> None:
        stdout = self.outcome(name).stdout
        if self.plugin.kind == PluginKind.IMAGE:
            decode_response(self.plugin.name, self.version(name), stdout)
            return
        try:
            read_credential(self.version(name), stdout, plugin=self.plugin.name)
        except EnvironmentProblem:
            return  # no means to look into a certificate: the rule for it says so


class Rule(Value):
    """How a check is made: the experiments it needs, by pattern, and the function that judges them."""

    needs: tuple[str, ...]
    judge: "Callable[[Evidence], Iterator[Violation]]"


# Bad input is refused before anything slow is done, so nobody waits a minute for it.
_SOON_SECONDS = 15.0


def limit_for(plugin: PluginUnderTest, experiment: Experiment) -> float:
    """The time limit of an experiment."""
    is_question = experiment.is_patient or experiment.name == "good" or experiment.name.startswith("good ")
    return plugin.timeout_seconds if is_question else min(plugin.timeout_seconds, _SOON_SECONDS)


def is_reached(code: str, found: str, order: tuple[tuple[str, ...], ...]) -> bool:
    """Tell whether an answer was read as far as *code* says something of it, where *found* is what stopped it.

    In *order* stands what is looked at first; of codes that stand together the first one stops it.
    """
    if not found or code == found:
        return True
    places = {each: at for at, codes in enumerate(order) for each in codes}
    return places[code] < places[found]


def succeeded(outcome: ProcessOutcome) -> bool:
    """Tell whether a run ended by itself with status 0."""
    return outcome.ending is Ending.EXITED and outcome.status == 0


def failed(outcome: ProcessOutcome) -> bool:
    """Tell whether a run ended by itself with a status that says no."""
    return outcome.ending is Ending.EXITED and any(outcome.status in statuses for statuses in _OWN_STATUSES)


def stderr_text(outcome: ProcessOutcome, secrets: Secrets) -> str:
    """The end of what a run printed on standard error, without secrets; empty if that is nothing."""
    tail = secrets.hide(stderr_tail(outcome.stderr, tuple(secrets.texts)))
    return f"; it said: {tail}" if tail else "; it said nothing"
