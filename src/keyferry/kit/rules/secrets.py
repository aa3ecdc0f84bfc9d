"""Rules about a plugin's secrets outside its response, and about the files it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.kit.lab.evidence import Evidence, Rule, Unchecked, Violation
from keyferry.kit.lab.experiments import EVERY_EXPERIMENT
from keyferry.kit.lab.processes import can_look
from keyferry.kit.lab.secrets import LeakedFile, find_leaks, list_files, secrets_in

__all__ = ["SECRET_RULES"]


def _on_stderr(evidence: Evidence) -> Iterator[Violation]:
    stderrs = {name: evidence.outcome(name).stderr for name in evidence.names(*EVERY_EXPERIMENT)}
    leaking = [name for name, stderr in stderrs.items() if evidence.secrets.found_in(stderr)]
    if not leaking:
        _require_secrets(evidence)
    for name in leaking:
        yield Violation(
            experiment=name,
            found="a secret of the request or the response on standard error",
            expected="no secret",
        )


def _on_command_line(evidence: Evidence) -> Iterator[Violation]:
    _require_secrets(evidence)
    if not can_look():
        raise Unchecked("this system has no /proc")
    names = list(evidence.names(*EVERY_EXPERIMENT))
    if not any(evidence.run(name).command_lines for name in names):
        raise Unchecked("the plugin ended before its command line could be read")
    for name in names:
        for line in evidence.run(name).command_lines:
            if evidence.secrets.found_in(line):
                program = line.partition(b"\0")[0].decode("utf-8", "replace")
                yield Violation(
                    experiment=name, found=f"a secret among the arguments of {program}", expected="no secret"
                )
                return


def _require_secrets(evidence: Evidence) -> None:
    """Raise Unchecked unless a response contains a secret to search for."""
    if not any(secrets_in(run.outcome.stdout) for run in evidence.runs.values()):
        raise Unchecked("no response contains a secret to search for")


def _leaks(evidence: Evidence, variable: str) -> list[LeakedFile]:
    _require_secrets(evidence)
    return list(find_leaks(_folder(evidence, variable), evidence.secrets))


def _folder(evidence: Evidence, variable: str) -> str:
    """Return the kit's own HOME or TMPDIR; raise Unchecked if the plugin has another, which is not searched."""
    if variable in dict(evidence.plugin.env):
        raise Unchecked(f"the plugin's {variable} is set with --env and is not searched")
    return evidence.around.home if variable == "HOME" else evidence.around.temporary


def _readable(evidence: Evidence) -> Iterator[Violation]:
    found, unchecked = [], None
    for variable in ("HOME", "TMPDIR"):
        try:
            found += [f"{variable}/{leak.path}" for leak in _leaks(evidence, variable) if leak.is_open]
        except Unchecked as reason:
            unchecked = reason
    if unchecked is not None and not found:
        raise unchecked
    for path in found:
        yield Violation(
            experiment="good", found=f"{path} contains a secret and others can read it", expected="mode 0600"
        )


def _in_temporary(evidence: Evidence) -> Iterator[Violation]:
    for leak in _leaks(evidence, "TMPDIR"):
        if not leak.is_open:
            yield Violation(
                experiment="good", found=f"TMPDIR/{leak.path} contains a secret", expected="no such file"
            )


def _in_home(evidence: Evidence) -> Iterator[Violation]:
    for leak in _leaks(evidence, "HOME"):
        if not leak.is_open:
            yield Violation(
                experiment="good", found=f"HOME/{leak.path} contains a secret", expected="no such file"
            )


def _left_files(evidence: Evidence) -> Iterator[Violation]:
    folder = _folder(evidence, "TMPDIR")
    leaked = {leak.path for leak in find_leaks(folder, evidence.secrets)}
    files = [path[len(folder) + 1 :] for path, _ in list_files(folder)]
    others = [path for path in files if path not in leaked]
    if others:
        found = f"{len(others)} files in TMPDIR after {len(evidence.runs)} runs, such as {others[0]!r}"
        yield Violation(experiment="good", found=found, expected="none")


SECRET_RULES: dict[str, Rule] = {
    "KP301": Rule(needs=EVERY_EXPERIMENT, judge=_on_stderr),
    "KP302": Rule(needs=("good",), judge=_on_command_line),
    "KP303": Rule(needs=EVERY_EXPERIMENT, judge=_readable),
    "KP304": Rule(needs=EVERY_EXPERIMENT, judge=_in_temporary),
    "KP305": Rule(needs=EVERY_EXPERIMENT, judge=_in_home),
    "KP306": Rule(needs=EVERY_EXPERIMENT, judge=_left_files),
}
