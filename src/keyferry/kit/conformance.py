"""Test a plugin: make all runs that the checks need, several at a time, and judge the results."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from keyferry._core.clock import time_ns
from keyferry._core.program.start import describe_start_problem
from keyferry._core.severity import Severity
from keyferry._core.values import replace
from keyferry.errors import EnvironmentProblem
from keyferry.images.reference import normalise
from keyferry.invoke.run import Ending, Limits
from keyferry.kit.checks.catalogue import checks_for
from keyferry.kit.checks.check import Check
from keyferry.kit.lab.evidence import Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import (
    Experiment,
    Family,
    Surroundings,
    environment,
    limit_for,
    repeat_command,
    repeat_variables,
)
from keyferry.kit.lab.launch import Launch, Run, launch
from keyferry.kit.lab.requests import CANARY, SIMULTANEOUS_RUNS, plan
from keyferry.kit.lab.secrets import Secrets, secrets_in
from keyferry.kit.plugin import PluginKind, PluginUnderTest, find_program
from keyferry.kit.report import Report, ReportedViolation, Result, Status

__all__ = ["examine"]

Progress = Callable[[int, int], None]
_WORKERS = 4
_MAX_SHOWN = 5


def examine(
    plugin: PluginUnderTest,
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Make all checks of a plugin, or *only* some, and return the report.

    Raise EnvironmentProblem if the plugin cannot be started. It runs about fifty times, with a HOME and TMPDIR
    of its own unless its variables set them.
    """
    plugin = _ready(plugin)
    started = time.monotonic()
    checks = checks_for(plugin.kind)
    wanted = [each for each in checks if each.code not in skip and (not only or each.code in only)]
    needs = {need for each in wanted for need in each.needs}
    folder = tempfile.mkdtemp(prefix="keyferry-kit-")
    try:
        evidence = _Lab(plugin, folder, progress).work(needs)
        results = tuple(_result(each, evidence, only, skip) for each in checks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Report(
        plugin=plugin.path,
        kind=plugin.kind,
        api_version=plugin.api_version,
        results=results,
        runs=len(evidence.observations),
        seconds=time.monotonic() - started,
        notes=tuple(_notes(evidence, results)),
        fix_first=_first_to_fix(evidence, results),
    )


def _ready(plugin: PluginUnderTest) -> PluginUnderTest:
    """Return the plugin with an absolute path, and with images as the kubelet names them."""
    if not hasattr(os, "killpg"):
        raise EnvironmentProblem("the conformance kit requires a POSIX system such as Linux or macOS")
    if plugin.kind is not PluginKind.CLUSTER and not plugin.images:
        raise EnvironmentProblem(
            "found no image; an image plugin is tested with an image that it has credentials for"
        )
    images = tuple(dict.fromkeys(normalise(image) for image in plugin.images))
    return replace(plugin, path=find_program(plugin.path), images=images)


class _Lab:
    """The folder and the experiments of one test of a plugin."""

    def __init__(self, plugin: PluginUnderTest, folder: str, progress: Progress | None) -> None:
        self._plugin = plugin
        self._progress = progress or (lambda _done, _total: None)
        self._canary_file = os.path.join(folder, "made")
        self._around = Surroundings(
            home=os.path.join(folder, "home"), temporary=os.path.join(folder, "tmp"), environ=dict(os.environ)
        )
        os.mkdir(self._around.home, 0o700)
        os.mkdir(self._around.temporary, 0o700)

    def work(self, needs: Collection[str]) -> Evidence:
        """Make the runs that are needed, by name or family; only the first one if that does not exit."""
        first, *others = plan(self._plugin, self._canary_file)
        runs = [(first, self._run(first))]
        if runs[0][1].outcome.ending is Ending.EXITED:
            runs += self._run_all([each for each in others if each.name in needs or each.family in needs])
        returned = frozenset[str]().union(*(secrets_in(run.outcome.stdout) for _, run in runs))
        known = {CANARY, self._plugin.token} - {""}
        secrets = Secrets(texts=returned | known)
        return Evidence(
            plugin=self._plugin,
            observations={
                each.name: Observation(plugin=self._plugin, experiment=each, run=run, secrets=secrets)
                for each, run in runs
            },
            secrets=secrets,
            has_secrets=bool(returned),
            around=self._around,
            now_ns=time_ns(),
            canary_made=os.path.exists(self._canary_file),
        )

    def _run_all(self, experiments: list[Experiment]) -> list[tuple[Experiment, Run]]:
        """Run most experiments a few at a time, those that are simultaneous at once, and last those that come last."""
        apart = [one for one in experiments if one.family not in (Family.SIMULTANEOUS, Family.LAST)]
        together = [one for one in experiments if one.family is Family.SIMULTANEOUS]
        last = [one for one in experiments if one.family is Family.LAST]
        runs: dict[str, Run] = {}
        for batch, workers in ((apart, _WORKERS), (together, SIMULTANEOUS_RUNS), (last, _WORKERS)):
            with ThreadPoolExecutor(workers) as pool:
                try:
                    for one, run in zip(batch, pool.map(self._run, batch), strict=True):
                        runs[one.name] = run
                        self._progress(len(runs) + 1, len(experiments) + 1)
                finally:
                    # An interrupt waits for the current runs, but not for those that have not started.
                    pool.shutdown(cancel_futures=True)
        return [(one, runs[one.name]) for one in experiments]

    def _run(self, experiment: Experiment) -> Run:
        what = Launch(
            argv=(*experiment.prefix, self._plugin.path, *self._plugin.args),
            environ=environment(self._plugin, self._around, experiment),
            stdin=experiment.stdin,
            limits=Limits(timeout_seconds=limit_for(self._plugin, experiment)),
            cwd=experiment.cwd,
            has_reader=experiment.has_reader,
            is_input_watched=experiment.is_input_watched,
            is_sampled=experiment.is_sampled,
        )
        try:
            run = launch(what)
        except (OSError, ValueError) as error:
            reason = describe_start_problem(self._plugin.path, error)
        else:
            if run.outcome.ending is not Ending.LOST:
                return run
            reason = f"cannot be run: it {run.outcome.ending}"
        raise EnvironmentProblem(f"plugin {self._plugin.path!r} {reason}")


def _result(check: Check, evidence: Evidence, only: Collection[str], skip: Collection[str]) -> Result:
    if check.code in skip:
        return Result(check=check, status=Status.SKIPPED, reason="excluded by --skip")
    if only and check.code not in only:
        return Result(check=check, status=Status.SKIPPED, reason="not in --only", is_asked_for=False)
    violations: list[Violation] = []
    reason = ""
    try:
        # What was found is kept if the check finds later that it cannot judge the rest.
        violations.extend(check.judge(evidence.select(check.needs)))
    except Unchecked as unchecked:
        reason = str(unchecked)
    if violations:
        broken = tuple(_broken(each, evidence) for each in violations[:_MAX_SHOWN])
        return Result(check=check, status=Status.FAILED, broken=broken)
    if not reason and evidence["good"].outcome.ending is not Ending.EXITED:
        reason = "not run: the plugin did not exit after the first request"
    return Result(check=check, status=Status.UNCHECKED if reason else Status.PASSED, reason=reason)


def _broken(violation: Violation, evidence: Evidence) -> ReportedViolation:
    experiment = evidence[violation.experiment].experiment
    # The invented token is no secret.
    secrets = evidence.secrets.texts - {CANARY}
    return ReportedViolation(
        experiment=violation.experiment,
        found=evidence.secrets.hide(violation.found),
        expected=evidence.secrets.hide(violation.expected),
        repeat=repeat_command(evidence.plugin, experiment, secrets),
    )


def _first_to_fix(evidence: Evidence, results: Iterable[Result]) -> str:
    """Return the code of the failure that makes other results meaningless; empty if a normal request succeeds.

    If the first run did not end, it is the only one, and all that it shows is to be seen.
    """
    good = evidence["good"]
    if good.is_good or good.outcome.ending is not Ending.EXITED:
        return ""
    failed = (each for each in results if any(one.experiment == "good" for one in each.broken))
    return next((each.check.code for each in failed if each.check.severity is Severity.ERROR), "")


def _notes(evidence: Evidence, results: Iterable[Result]) -> Iterator[str]:
    commands = [one.repeat for each in results for one in each.broken]
    variables = repeat_variables(evidence.plugin, commands)
    if variables:
        yield f"set these variables in your shell before you paste a repeat line: {', '.join(variables)}"
    if "HOME" not in dict(evidence.plugin.env):
        yield "the plugin's HOME and TMPDIR were empty folders; pass your own with --env HOME=$HOME"
    network = evidence.observations.get("no network")
    if network is not None and not network.experiment.prefix:
        yield "no network: simulated with unreachable proxies; an isolated network requires permission to use unshare"
