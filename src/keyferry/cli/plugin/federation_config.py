"""The FederationConfig that ``plugin install`` writes: its problems, and the path where the plugin looks for it."""

from __future__ import annotations

import os
import sys

from keyferry._core.bounded import read_path
from keyferry._core.values import Value, field
from keyferry.errors import ConfigError, EnvironmentProblem
from keyferry.images.config.read import read_config
from keyferry.images.node.discover import discover
from keyferry.kit.install import config_text, is_written_here
from keyferry.lint.fixes import FixedFile, masked_diff
from keyferry.lint.kinds.federation import FederationFile, decode_federation, find_doubts
from keyferry.lint.kinds.federation_providers import check_federations, named_config
from keyferry.lint.recognise import recognise
from keyferry.lint.report import FileKind
from keyferry.show.writer import report

__all__ = ["CheckedFederation", "check_federation", "show_change"]


class CheckedFederation(Value):
    """A config without errors: where to write it, and what is there before, None if nothing is, and after."""

    target: str
    before: bytes | None = field(repr=False)
    after: bytes = field(repr=False)


def check_federation(path: str, config: str | None, program: str, *, replace: bool) -> CheckedFederation:
    """Return the config in *path* and the path that the provider *program* names; report what is doubtful.

    Raise ConfigError with all problems for which the plugin would refuse it, and EnvironmentProblem if it cannot be
    read, no provider names a path for it, or something else has that path: a file of another kind, or, without
    *replace*, a config that somebody else has written or changed.
    """
    file = decode_federation(path, _read(path))
    if file.problems or file.document is None:
        raise ConfigError(file.problems)
    target = _find_target(file, config, program)
    before, after = _read_older(target), config_text(file.document.value)
    if before not in (None, after) and not replace and not is_written_here(target, before or b""):
        raise EnvironmentProblem(
            f"{target!r} is not replaced: keyferry has not written it, or somebody has changed it since; "
            f"compare it with {path!r}, and replace it with --force"
        )
    report(*(f"{problem.code}: {problem}" for problem in find_doubts(file) if problem.line is not None))
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        report(f"{target} will belong to you: a kubelet that runs as root refuses it until root owns it")
    return CheckedFederation(target=target, before=before, after=after)


def show_change(checked: CheckedFederation) -> None:
    """Tell what changes in a config that exists, without values that may be secrets."""
    if checked.before is None:
        return
    if checked.before == checked.after:
        report(f"{checked.target} is up to date")
        return
    for line in masked_diff(
        FixedFile(path=checked.target, before=checked.before, after=checked.after), checked.target
    ):
        print(line, file=sys.stderr)


def _read_older(target: str) -> bytes | None:
    """Return the config that is at *target*; None if nothing is."""
    if not os.path.lexists(target):
        return None
    if not os.path.isfile(target) or recognise(_read(target)) is not FileKind.FEDERATION:
        raise EnvironmentProblem(
            f"{target!r} is not replaced: it is no FederationConfig; remove it, or name another path in the args"
        )
    return _read(target)


def _read(path: str) -> bytes:
    try:
        return read_path(path)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be read: {(error.strerror or '').lower()}") from None


def _find_target(file: FederationFile, config: str | None, program: str) -> str:
    advice = "give the provider config with --config"
    where = discover(config, needs_bin_dir=False, advice=advice).config
    read = read_config(where)
    read.raise_for_problems()
    number = next((at for at, each in enumerate(read.providers) if each.name == program), None)
    target = named_config(read.providers[number]) if number is not None else ""
    if not os.path.isabs(target):
        problem = f"{where} has no provider {program!r} whose args have --config with an absolute path"
        raise EnvironmentProblem(f"{problem}; add one such as --config=/etc/keyferry/federation.json")
    for at, finding in check_federations(read.providers, (file,)):
        if at == number:
            report(f"{finding.code}: {where}: {finding.message}")
    return target
