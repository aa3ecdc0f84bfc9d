"""Rules about a plugin's secrets outside its response, and about the files it leaves behind."""

from collections.abc import Iterator

from keyferry.kit.lab.evidence import Evidence, Rule, Unchecked, Violation
from keyferry.kit.lab.processes import can_look
from keyferry.kit.lab.secrets import LeakedFile, find_leaks, list_files, secrets_in

__all__ = ["SECRET_RULES"]

_EVERYTHING = ("*",)


def _on_stderr(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_EVERYTHING):
        if evidence.secrets.found_in(evidence.outcome(name).stderr):
            yield Violation(name, "a secret of the request or the response on standard error", "no secret")


def _on_command_line(evidence: Evidence) -> Iterator[Violation]:
    _require_secrets(evidence)
    if not can_look():
        raise Unchecked("this system has no /proc")
    for name in evidence.names(*_EVERYTHING):
        for line in evidence.run(name).command_lines:
            if evidence.secrets.found_in(line):
                program = line.partition(b"\0")[0].decode("utf-8", "replace")
                yield Violation(name, f"a secret among the arguments of {program}", "no secret")
                return


def _require_secrets(evidence: Evidence) -> None:
    """Raise Unchecked unless a response contains a secret to search for."""
    if not any(secrets_in(run.outcome.stdout) for run in evidence.runs.values()):
        raise Unchecked("no response contains a secret to search for")


def _leaks(evidence: Evidence, folder: str) -> list[LeakedFile]:
    _require_secrets(evidence)
    return list(find_leaks(folder, evidence.secrets))


def _readable(evidence: Evidence) -> Iterator[Violation]:
    for title, folder in (("HOME", evidence.around.home), ("TMPDIR", evidence.around.temporary)):
        for leak in _leaks(evidence, folder):
            if leak.is_open:
                yield Violation(
                    "good", f"{title}/{leak.path} contains a secret and others can read it", "mode 0600"
                )


def _in_temporary(evidence: Evidence) -> Iterator[Violation]:
    for leak in _leaks(evidence, evidence.around.temporary):
        if not leak.is_open:
            yield Violation("good", f"TMPDIR/{leak.path} contains a secret", "no such file")


def _in_home(evidence: Evidence) -> Iterator[Violation]:
    for leak in _leaks(evidence, evidence.around.home):
        if not leak.is_open:
            yield Violation("good", f"HOME/{leak.path} contains a secret", "no such file")


def _left_files(evidence: Evidence) -> Iterator[Violation]:
    leaked = {leak.path for leak in find_leaks(evidence.around.temporary, evidence.secrets)}
    prefix = len(evidence.around.temporary) + 1
    files = [path[prefix:] for path, _ in list_files(evidence.around.temporary)]
    others = [path for path in files if path not in leaked]
    if others:
        found = f"{len(others)} files in TMPDIR after {len(evidence.runs)} runs, such as {others[0]!r}"
        yield Violation("good", found, "none")


SECRET_RULES: dict[str, Rule] = {
    "KP301": Rule(_EVERYTHING, _on_stderr),
    "KP302": Rule(("good",), _on_command_line),
    "KP303": Rule(_EVERYTHING, _readable),
    "KP304": Rule(_EVERYTHING, _in_temporary),
    "KP305": Rule(_EVERYTHING, _in_home),
    "KP306": Rule(_EVERYTHING, _left_files),
}
