"""Lint a provider config: report what stops a kubelet, and what is valid but probably not intended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from keyferry._core.paths import format_path
from keyferry.errors import Problem
from keyferry.images.config.read import ReadConfig, read_config
from keyferry.images.config.refusals import Causes, LoadStage, Refusals, find_refusals
from keyferry.lint.federation.arguments import is_federate
from keyferry.lint.federation.decode import FederationFile
from keyferry.lint.federation.providers import check_federations
from keyferry.lint.files import check_files
from keyferry.lint.providers.patterns import Suspicion, check_shared
from keyferry.lint.providers.plugins import check_bin_dir_owner, check_plugin
from keyferry.lint.providers.rules import check_provider, check_windows_names
from keyferry.lint.report import Finding, LintReport, finding_of, place_of
from keyferry.lint.source import SourceFile
from keyferry.lint.versions import (
    LATEST,
    Rules,
    is_checked,
    newer_fields,
    refuse_directory,
    rules_for,
)

__all__ = ["Finding", "LintReport", "lint"]

_UNCACHED = "KF176"
_NO_GATES: Mapping[str, bool] = MappingProxyType({})


def lint(
    path: str,
    *,
    data: bytes | None = None,
    bin_dir: str | None = None,
    kubernetes: str = LATEST,
    gates: Mapping[str, bool] = _NO_GATES,
    beside: tuple[FederationFile, ...] = (),
) -> LintReport:
    """Return all problems of the config at *path*, a file or a directory; *data* is as in ``read_config``.

    With *bin_dir*, the plugins are checked too. *gates* are feature gates of the kubelet that differ from the
    defaults of its version. *beside* are federation configs of its providers. Raise ValueError for an unknown
    version of Kubernetes.
    """
    rules = rules_for(kubernetes, gates)
    config = read_config(path, data)
    stages = tuple(_refusals(config, bin_dir, rules))
    refusals = [problem for stage in stages for problem in stage.problems]
    problems = [*refusals, *Causes(refusals).remove_from(_suspicions(config, bin_dir, beside))]
    return LintReport(
        path=path,
        kubernetes=rules.version,
        bin_dir=bin_dir,
        files=tuple(file.path for file in config.files),
        providers=len(config.providers),
        findings=tuple(sorted({finding_of(problem): None for problem in problems}, key=place_of)),
        kubernetes_text=next((stage.kubernetes_text for stage in stages if stage.problems), ""),
        sources=tuple(SourceFile(path=file.path, data=file.data) for file in config.files),
    )


def _refusals(config: ReadConfig, bin_dir: str | None, rules: Rules) -> Iterator[Refusals]:
    """Yield what stops a kubelet of one version: the latest rules, and the fields that it does not know yet."""
    stages = find_refusals(
        config,
        bin_dir,
        service_account_tokens=rules.gate,
        is_checked=lambda problem: is_checked(problem, rules),
    )
    for stage in stages:
        is_reading = stage.stage is LoadStage.READ
        if is_reading and not rules.directory and os.path.isdir(config.path):
            refused = refuse_directory(config.path, rules)
            yield Refusals(stage=LoadStage.READ, problems=(refused,), kubernetes_text=refused.kubernetes_text)
        yield stage
        if is_reading:
            newer = tuple(newer_fields(config, rules))
            yield Refusals(stage=LoadStage.READ, problems=newer, kubernetes_text=_strict_text(newer))


def _strict_text(problems: tuple[Problem, ...]) -> str:
    if not problems:
        return ""
    texts = ", ".join(problem.kubernetes_text for problem in problems if problem.file == problems[0].file)
    return f"error decoding config {problems[0].file}: strict decoding error: {texts}"


def _suspicions(
    config: ReadConfig, bin_dir: str | None, beside: tuple[FederationFile, ...]
) -> Iterator[Problem]:
    yield from check_files(config, bin_dir)
    for number, suspicion in _of_providers(config, bin_dir, beside):
        yield _placed(config, number, suspicion)
    for number, suspicion in check_federations(config.providers, beside):
        yield _placed(config, number, suspicion)
    if bin_dir is not None:
        yield from check_bin_dir_owner(bin_dir)


def _of_providers(
    config: ReadConfig, bin_dir: str | None, beside: tuple[FederationFile, ...]
) -> Iterator[tuple[int, Suspicion]]:
    for number, provider in enumerate(config.providers):
        for suspicion in check_provider(provider):
            # This plugin always sets the duration.
            if suspicion[1] != _UNCACHED or not is_federate(provider, beside):
                yield number, suspicion
        for code, message in check_plugin(bin_dir, provider.name) if bin_dir is not None else ():
            yield number, (("name",), code, message)
    yield from check_shared(config.providers)
    yield from check_windows_names(config.providers)


def _placed(config: ReadConfig, number: int, suspicion: Suspicion) -> Problem:
    at, code, message = suspicion
    location = config.locations[number]
    path = format_path(("providers", location.index, *at))
    return location.problem(at, Problem(path, message, code=code))
