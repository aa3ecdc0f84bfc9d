"""Checks of every plugin: its secrets outside its response, its failures, its process and its environment."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.severity import Severity
from keyferry.images.provider.plugin import go_exit_text
from keyferry.invoke.run import Ending
from keyferry.kit.checks.check import Code, check
from keyferry.kit.lab.evidence import Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import EVERY_EXPERIMENT, NORMAL, Family
from keyferry.kit.lab.launch import can_look
from keyferry.kit.lab.secrets import LeakedFile, find_leaks, list_files

_KUBELET_SECONDS = 60.0
_SLOW_SECONDS = 10.0
_LARGE_BYTES = 512 * 1024 * 1024
_CRASHES = (
    b"Traceback (most recent call last)",
    b"goroutine 1 [",
    b"panic: ",
    b"' panicked at ",
    b"Exception in thread ",
    b"    at node:internal",
)

KP301 = Code(
    code="KP301",
    severity=Severity.ERROR,
    title="prints no secret on standard error",
    why="the kubelet copies standard error into its log when a plugin fails, and client-go shows it on the terminal",
    fix="print the reason of the failure, never a password, a token, a header or the request",
)


@check(KP301, needs=EVERY_EXPERIMENT)
def prints_no_secret(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs with a secret on standard error."""
    leaking = [each for each in evidence.selected if evidence.secrets.found_in(each.outcome.stderr)]
    if not leaking:
        _require_secrets(evidence)
    for each in leaking:
        yield each.violation("a secret of the request or the response on standard error", "no secret")


def _require_secrets(evidence: Evidence) -> None:
    """Raise Unchecked unless a response contains a secret to search for."""
    if not evidence.has_secrets:
        raise Unchecked("no response contains a secret to search for")


KP302 = Code(
    code="KP302",
    severity=Severity.ERROR,
    title="puts no secret on a command line",
    why="every user of the machine can read the arguments of every process",
    fix="pass secrets to other programs on standard input or in a file that only the plugin's user can read",
)


@check(KP302, needs=("good",))
def passes_no_secret(evidence: Evidence) -> Iterator[Violation]:
    """Yield the first command line with a secret."""
    _require_secrets(evidence)
    if not can_look():
        raise Unchecked("this system has no /proc")
    lines = [(each, line) for each in evidence.selected for line in each.run.command_lines]
    if not lines:
        raise Unchecked("the plugin ended before its command line could be read")
    for each, line in lines:
        if evidence.secrets.found_in(line):
            program = line.partition(b"\0")[0].decode("utf-8", "replace")
            yield each.violation(f"a secret among the arguments of {program}", "no secret")
            return


KP303 = Code(
    code="KP303",
    severity=Severity.ERROR,
    title="writes no secret to a file that others can read",
    why="a file that group or others can read gives the credential to every user and many pods of the node",
    fix="create files with mode 0600, or write no files",
)


@check(KP303, needs=EVERY_EXPERIMENT)
def leaves_no_open_secret(evidence: Evidence) -> Iterator[Violation]:
    """Yield the files with a secret that others can read."""
    found, unchecked = [], None
    for variable in ("HOME", "TMPDIR"):
        try:
            found += [f"{variable}/{leak.path}" for leak in _leaks(evidence, variable) if leak.is_open]
        except Unchecked as reason:
            unchecked = reason
    if unchecked is not None and not found:
        raise unchecked
    for path in found:
        yield evidence["good"].violation(f"{path} contains a secret and others can read it", "mode 0600")


def _leaks(evidence: Evidence, variable: str) -> list[LeakedFile]:
    _require_secrets(evidence)
    return list(find_leaks(_folder(evidence, variable), evidence.secrets))


def _folder(evidence: Evidence, variable: str) -> str:
    """Return the kit's own HOME or TMPDIR; raise Unchecked if the plugin has another, which is not searched."""
    if variable in dict(evidence.plugin.env):
        raise Unchecked(f"the plugin's {variable} is set with --env and is not searched")
    return evidence.around.home if variable == "HOME" else evidence.around.temporary


KP304 = Code(
    code="KP304",
    severity=Severity.WARNING,
    title="leaves no secret in temporary files",
    why="a temporary file remains after the run and the credential's expiry, and often after a restart of the machine",
    fix="keep the secret in memory, or remove the file also when the run fails",
)


@check(KP304, needs=EVERY_EXPERIMENT)
def leaves_no_temporary_secret(evidence: Evidence) -> Iterator[Violation]:
    """Yield the temporary files with a secret that only their owner can read."""
    for leak in _leaks(evidence, "TMPDIR"):
        if not leak.is_open:
            yield evidence["good"].violation(f"TMPDIR/{leak.path} contains a secret", "no such file")


KP305 = Code(
    code="KP305",
    severity=Severity.INFO,
    title="keeps no secret in its home folder",
    why="a cached credential can be stolen, and the kubelet has a cache of its own",
    fix="make sure that the cache is intended, and that expired credentials are removed",
)


@check(KP305, needs=EVERY_EXPERIMENT)
def leaves_no_secret_at_home(evidence: Evidence) -> Iterator[Violation]:
    """Yield the files in the home folder with a secret that only their owner can read."""
    for leak in _leaks(evidence, "HOME"):
        if not leak.is_open:
            yield evidence["good"].violation(f"HOME/{leak.path} contains a secret", "no such file")


KP306 = Code(
    code="KP306",
    severity=Severity.WARNING,
    title="leaves no temporary files behind",
    why="on a node the plugin runs for years, and the files fill the disk",
    fix="remove the files also when the run fails",
)


@check(KP306, needs=EVERY_EXPERIMENT)
def leaves_no_files(evidence: Evidence) -> Iterator[Violation]:
    """Yield the number of temporary files without secrets."""
    folder = _folder(evidence, "TMPDIR")
    leaked = {leak.path for leak in find_leaks(folder, evidence.secrets)}
    files = [path[len(folder) + 1 :] for path, _ in list_files(folder)]
    others = [path for path in files if path not in leaked]
    if others:
        runs = len(evidence.observations)
        found = f"{len(others)} files in TMPDIR after {runs} runs, such as {others[0]!r}"
        yield evidence["good"].violation(found, "none")


KP310 = Code(
    code="KP310",
    severity=Severity.ERROR,
    title="prints the reason of a failure on standard error",
    why="the exit status alone does not help readers of the kubelet's log and users of kubectl",
    fix="print one line with the problem and its place before exiting with a status other than 0",
)


@check(KP310, needs=EVERY_EXPERIMENT)
def explains_failures(evidence: Evidence) -> Iterator[Violation]:
    """Yield the failures without a message."""
    for each in _failed(evidence):
        if not each.outcome.stderr.strip():
            yield each.violation(each.describe(), "a line with the reason of the failure")


def _failed(evidence: Evidence) -> list[Observation]:
    """Return the runs that failed with an exit status of their own; raise Unchecked if there are none."""
    failed = [each for each in evidence.selected if each.has_failed and each.experiment.has_reader]
    if not failed:
        raise Unchecked("no run failed with an exit status of its own")
    return failed


KP311 = Code(
    code="KP311",
    severity=Severity.WARNING,
    title="prints nothing on standard output when it fails",
    why="the output is ignored, and may contain a part of a credential",
    fix="print the response only when it is complete",
)


@check(KP311, needs=EVERY_EXPERIMENT)
def fails_without_output(evidence: Evidence) -> Iterator[Violation]:
    """Yield the failures with output."""
    for each in _failed(evidence):
        size = len(each.outcome.stdout)
        if size:
            yield each.violation(f"a failure with {size} bytes on standard output", "no output")


KP312 = Code(
    code="KP312",
    severity=Severity.WARNING,
    title="reports invalid input in one sentence, without a stack trace",
    why="a stack trace helps only the plugin's author, and may contain secrets",
    fix="catch the error and print one line",
)


@check(KP312, needs=EVERY_EXPERIMENT)
def fails_without_a_stack_trace(evidence: Evidence) -> Iterator[Violation]:
    """Yield the failures with a stack trace."""
    for each in _failed(evidence):
        if any(mark in each.outcome.stderr for mark in _CRASHES):
            yield each.violation("a stack trace on standard error", "one sentence")


KP313 = Code(
    code="KP313",
    severity=Severity.ERROR,
    title="writes a bounded amount to standard error",
    why="the kubelet keeps all of standard error in memory, without a limit",
    fix="print less, and nothing in an endless loop",
)


@check(KP313, needs=EVERY_EXPERIMENT)
def is_not_loud(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs that wrote too much to standard error."""
    for each in evidence.selected:
        if each.outcome.ending is Ending.STDERR_LIMIT:
            yield each.violation("more than 64 MB on standard error", "a few lines")


KP320 = Code(
    code="KP320",
    severity=Severity.ERROR,
    title="answers within the time limit",
    why="the kubelet kills a plugin after 60 s, and client-go waits without a limit, with every request of the client",
    fix="set a timeout for each network request that leaves time to report the failure",
)


@check(KP320, needs=NORMAL)
def is_not_late(evidence: Evidence) -> Iterator[Violation]:
    """Yield the normal requests that took longer than the kubelet waits."""
    for each in evidence.selected:
        if each.outcome.ending is Ending.TIMED_OUT:
            yield each.violation(each.describe(), f"an exit within {each.limit_seconds:g} s")
        elif each.outcome.seconds > _KUBELET_SECONDS:
            yield each.violation(f"it took {each.outcome.seconds:.0f} s", f"less than {_KUBELET_SECONDS:g} s")


KP321 = Code(
    code="KP321",
    severity=Severity.WARNING,
    title="answers within 10 s",
    why="the pull of a pod's image begins only after the plugin's response",
    fix="look for retries, slow metadata requests and tools that start other tools",
)


@check(KP321, needs=NORMAL)
def is_not_slow(evidence: Evidence) -> Iterator[Violation]:
    """Yield the normal requests that took long."""
    evidence.require_good()
    for each in evidence.selected:
        if each.outcome.ending is Ending.EXITED and each.outcome.seconds > _SLOW_SECONDS:
            yield each.violation(f"it took {each.outcome.seconds:.0f} s", f"less than {_SLOW_SECONDS:g} s")


KP322 = Code(
    code="KP322",
    severity=Severity.WARNING,
    title="needs less than 512 MB of memory",
    why="plugins run on the node beside the pods, several at a time, within the kubelet's own limits",
    fix="read less into memory, and limit the size of input",
)


@check(KP322, needs=EVERY_EXPERIMENT)
def is_not_large(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs that took too much memory."""
    is_unknown = False
    for each in evidence.selected:
        peak = each.run.peak_bytes
        if peak is None or (peak > _LARGE_BYTES and not each.run.is_peak_exact):
            is_unknown = True
        elif peak > _LARGE_BYTES:
            yield each.violation(f"{peak // 1024**2} MB", f"less than {_LARGE_BYTES // 1024**2} MB")
    if is_unknown:
        raise Unchecked("the memory of some runs could not be measured")


KP323 = Code(
    code="KP323",
    severity=Severity.ERROR,
    title="exits by itself, with an exit status of its own",
    why="a plugin that hangs is killed at its time limit, and a signal or a status from 126 to 251 stands for a crash, "
    "a missing program or a wrong executable format",
    fix="exit with 1 for known problems, and set a timeout for every wait",
)


# The experiments that no other check looks at for a signal.
@check(
    KP323,
    needs=(
        Family.NORMAL,
        "again",
        "sibling",
        "foreign",
        "account",
        Family.VERSION,
        "unknown field",
        "wrong kind",
        "wrong group",
        "wrong version",
        "empty image",
        "empty input",
        "with cluster",
        "input",
    ),
)
def exits_by_itself(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs that hang or end with a status that is not the plugin's own."""
    for each in evidence.selected:
        if each.outcome.ending is Ending.TIMED_OUT:
            yield each.violation(each.describe(), "an exit")
        elif each.outcome.ending is Ending.EXITED and not each.has_succeeded and not each.has_failed:
            found = go_exit_text(each.outcome.status or 0)
            yield each.violation(found, "an exit status from 0 to 125 or from 252 to 255")


KP324 = Code(
    code="KP324",
    severity=Severity.ERROR,
    title="leaves no process behind",
    why="every pull leaves another process, which uses memory and may have a secret",
    fix="wait for all started processes before exiting",
)


@check(KP324, needs=EVERY_EXPERIMENT)
def leaves_no_process(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs whose processes went on after them."""
    if all(each.run.left_behind is None for each in evidence.selected):
        raise Unchecked("no run exited" if can_look() else "this system has no /proc")
    for each in evidence.selected:
        if each.run.left_behind and not each.run.held_output:
            yield each.violation(f"still running after its exit: {_programs(each)}", "no process")


def _programs(observation: Observation) -> str:
    return ", ".join(sorted({process.name for process in observation.run.left_behind or ()}))


KP325 = Code(
    code="KP325",
    severity=Severity.ERROR,
    title="closes its output when it exits",
    why="the kubelet waits until every process has closed standard output and error: with a background child that "
    "keeps them open, the plugin appears to hang",
    fix="redirect the child's output, or wait for the child",
)


@check(KP325, needs=EVERY_EXPERIMENT)
def closes_its_output(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs whose processes kept the output open."""
    for each in evidence.selected:
        if each.run.held_output:
            programs = _programs(each)
            found = "its output is still open a second after its exit"
            yield each.violation(found + (f", held by: {programs}" if programs else ""), "closed output")


KP326 = Code(
    code="KP326",
    severity=Severity.ERROR,
    title="answers as well when it runs eight times at once",
    why="the images of pods that start together are pulled together",
    fix="share no file without a lock, and use no fixed name in a temporary folder",
)

KP327 = Code(
    code="KP327",
    severity=Severity.ERROR,
    title="answers in every locale",
    why="the kubelet runs without a locale or in C, where text outside ASCII makes some programs fail",
    fix="read and write UTF-8 in every locale",
)

KP328 = Code(
    code="KP328",
    severity=Severity.ERROR,
    title="answers in any working directory",
    why="the kubelet runs in '/', and kubectl in the user's current directory",
    fix="use absolute paths, or paths relative to the program itself",
)

KP329 = Code(
    code="KP329",
    severity=Severity.WARNING,
    title="answers without a home folder",
    why="a kubelet under systemd has no HOME, and the home folder of many service users does not exist",
    fix="take paths from arguments or from variables of the config, and do not require a cache",
)


@check(KP326, needs=(Family.SIMULTANEOUS,))
@check(KP327, needs=(Family.LOCALE,))
@check(KP328, needs=("working directory /",))
@check(KP329, needs=("no home", "home that is no folder"))
def answers_like_the_first(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs without a valid response, by a plugin that answers a normal request."""
    evidence.require_good()
    for each in evidence.selected:
        if not each.is_good:
            yield each.violation(each.describe(), "a response as valid as the first")


KP330 = Code(
    code="KP330",
    severity=Severity.WARNING,
    title="answers with only PATH and its configured variables",
    why="the plugin gets the environment of the kubelet or of kubectl, which is not that of your shell",
    fix="list the required variables in the env of its config, and set them here with --env",
)


@check(KP330, needs=("bare environment", "no home"))
def needs_no_variables(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the plugin needs other variables than its own; one that needs HOME is not checked."""
    evidence.require_good()
    bare = evidence["bare environment"]
    if bare.is_good:
        return
    if not evidence["no home"].is_good:
        raise Unchecked("it fails without a home folder, see KP329")
    yield bare.violation(bare.describe(), "a response as valid as the first")


KP331 = Code(
    code="KP331",
    severity=Severity.ERROR,
    title="exits when nobody reads its response",
    why="after a restart of the kubelet, nobody reads the output of plugins that are still running",
    fix="do not retry or ignore a failed write",
)


@check(KP331, needs=("no reader",))
def needs_no_reader(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the plugin goes on when nobody reads its output."""
    each = evidence["no reader"]
    if each.outcome.ending is not Ending.EXITED:
        yield each.violation(each.describe(), "an exit, with any status")
    else:
        evidence.require_good()


KP332 = Code(
    code="KP332",
    severity=Severity.ERROR,
    title="exits in time, with a response or a message, when there is no network",
    why="an unreachable registry or metadata service must not delay pods with images from other registries",
    fix="set a timeout for each network request, and less than 60 s for all of them together",
)


@check(KP332, needs=("no network",))
def needs_no_network(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the plugin neither answers nor fails with a message when there is no network."""
    each = evidence["no network"]
    # A response that is also wrong with a network is reported by another check.
    is_worse = not each.is_good and (each.outcome.status != 0 or evidence["good"].is_good)
    if not each.has_failed and is_worse:
        yield each.violation(each.describe(), "a valid response, or a failure with a message")
    else:
        evidence.require_good()
