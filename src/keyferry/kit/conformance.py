"""Test a plugin: make all runs that the checks require, several at a time, and judge the results."""

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
from keyferry.kit.codes.catalogue import Check, checks_for
from keyferry.kit.lab.evidence import Evidence, Rule, Unchecked, Violation, limit_for
from keyferry.kit.lab.exec_infos import cluster_experiments, good_infos
from keyferry.kit.lab.experiments import (
    Experiment,
    Family,
    Surroundings,
    environment,
    repeat_command,
    repeat_variables,
)
from keyferry.kit.lab.launch import Launch, Run, launch
from keyferry.kit.lab.plugin_under_test import PluginUnderTest, find_program
from keyferry.kit.lab.requests import CANARY, good_requests, image_experiments
from keyferry.kit.lab.secrets import Secrets, secrets_in
from keyferry.kit.lab.variations import SIMULTANEOUS_RUNS, simultaneous_runs, variations
from keyferry.kit.plugin_kind import PluginKind
from keyferry.kit.report import Report, ReportedViolation, Result, Status
from keyferry.kit.rules.all import RULES

__all__ = ["examine"]

Progress = Callable[[int, int], None]
_WORKERS = 4
_MOST_SHOWN = 5
_LIMITS = Limits()


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
    folder = tempfile.mkdtemp(prefix="keyferry-kit-")
    try:
        wanted = [check for check in checks_for(plugin.kind) if _is_wanted(check, only, skip)]
        lab = _Lab(plugin, folder, progress)
        evidence = lab.work([RULES[check.code] for check in wanted])
        results = tuple(_result(check, evidence, only, skip) for check in checks_for(plugin.kind))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    return Report(
        plugin=plugin.path,
        kind=plugin.kind,
        api_version=plugin.api_version,
        results=results,
        runs=len(evidence.runs),
        seconds=seconds,
        notes=tuple(_notes(evidence, results)),
        fix_first=_first_to_fix(evidence, results),
    )


def _ready(plugin: PluginUnderTest) -> PluginUnderTest:
    """Return the plugin with an absolute path, and with images as the kubelet names them."""
    if not hasattr(os, "killpg"):
        raise EnvironmentProblem("the conformance kit requires a POSIX system such as Linux or macOS")
    if plugin.kind != PluginKind.CLUSTER and not plugin.images:
        raise EnvironmentProblem(
            "found no image; an image plugin is tested with an image that it has credentials for"
        )
    images = tuple(dict.fromkeys(normalise(image) for image in plugin.images))
    return replace(plugin, path=find_program(plugin.path), images=images)


def _is_wanted(check: Check, only: Collection[str], skip: Collection[str]) -> bool:
    return (not only or check.code in only) and check.code not in skip


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

    def work(self, rules: Iterable[Rule]) -> Evidence:
        """Make the runs that *rules* require; only the first one if that does not exit."""
        needs = {need for rule in rules for need in rule.needs}
        first, *others = self._plan()
        others = [one for one in others if one.is_one_of(needs)]
        runs = {first.name: self._run(first)}
        if runs[first.name].outcome.ending is Ending.EXITED:
            runs |= self._run_all(others)
        listed = {one.name: one for one in (first, *others)}
        known = frozenset((CANARY, *((self._plugin.token,) if self._plugin.token else ())))
        texts = known.union(*(secrets_in(run.outcome.stdout) for run in runs.values()))
        made = os.path.exists(self._canary_file)
        return Evidence(
            plugin=self._plugin,
            experiments=listed,
            runs=runs,
            secrets=Secrets(texts=texts),
            around=self._around,
            now_ns=time_ns(),
            canary_made=made,
        )

    def _plan(self) -> list[Experiment]:
        if self._plugin.kind == PluginKind.CLUSTER:
            goods = list(good_infos(self._plugin))
            others = cluster_experiments(self._plugin)
        else:
            goods = list(good_requests(self._plugin))
            others = image_experiments(self._plugin, self._canary_file)
        # Simultaneous runs are listed together, so that they are run together.
        return [*goods, *others, *variations(goods[0]), *simultaneous_runs(goods[0])]

    def _run_all(self, experiments: list[Experiment]) -> dict[str, Run]:
        together = [one for one in experiments if one.family is Family.SIMULTANEOUS]
        last = [one for one in experiments if one.family is Family.LAST]
        apart = [one for one in experiments if one not in together and one not in last]
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
        return runs

    def _run(self, experiment: Experiment) -> Run:
        limits = Limits(
            timeout_seconds=limit_for(self._plugin, experiment), stdout_bytes=_LIMITS.stdout_bytes
        )
        what = Launch(
            argv=(*experiment.prefix, self._plugin.path, *self._plugin.args),
            environ=environment(self._plugin, self._around, experiment),
            stdin=experiment.stdin,
            limits=limits,
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
    findings: list[Violation] = []
    reason = ""
    try:
        # What was found is kept if the rule finds later that it cannot check the rest.
        findings.extend(RULES[check.code].judge(evidence))
    except Unchecked as unchecked:
        reason = str(unchecked)
    if findings:
        broken = tuple(_broken(finding, evidence) for finding in findings[:_MOST_SHOWN])
        return Result(check=check, status=Status.FAILED, broken=broken)
    return _without_findings(check, evidence, reason)


def _without_findings(check: Check, evidence: Evidence, reason: str) -> Result:
    """Return a pass; not checked if there is a *reason*, or if the plugin hangs or writes without end."""
    if not reason and evidence.outcome("good").ending is not Ending.EXITED:
        reason = "not run: the plugin did not exit after the first request"
    return Result(check=check, status=Status.UNCHECKED if reason else Status.PASSED, reason=reason)


def _broken(finding: Violation, evidence: Evidence) -> ReportedViolation:
    experiment = evidence.experiments[finding.experiment]
    hide = evidence.secrets.hide
    # The invented token is no secret.
    repeat = repeat_command(evidence.plugin, experiment, evidence.secrets.texts - {CANARY})
    return ReportedViolation(
        experiment=finding.experiment,
        found=hide(finding.found),
        expected=hide(finding.expected),
        repeat=repeat,
    )


def _first_to_fix(evidence: Evidence, results: Iterable[Result]) -> str:
    """Return the code of the failure that makes other results meaningless; empty if a normal request succeeds.

    If the first run did not end, it is the only one, and all that it shows is to be seen.
    """
    if evidence.is_good("good") or evidence.outcome("good").ending is not Ending.EXITED:
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
    network = evidence.experiments.get("no network")
    if network is not None and not network.prefix:
        yield "no network: simulated with unreachable proxies; an isolated network requires permission to use unshare"
