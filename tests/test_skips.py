"""What is passed over is accounted for: tests that skip, by platform or ``support.parts``; lint rules, by a reason."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import parts

TESTS = Path(__file__).parent
# What a condition may ask of the platform, or of the tests' own installation.
PLATFORM = (
    "sys.platform",
    "os.path.isdir('/proc/self/fd')",
    "plugin_environment._limit()",
    "fork_exec.CAN_FORK_EXEC",
    "find_spec('socksio')",
)


def skips(tree: ast.Module) -> Iterator[ast.Call]:
    names = ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip")
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Attribute) and "skip" in call.func.attr)
    return (call for call in named if ast.unparse(call.func) in names)


def is_accounted_for(call: ast.Call) -> bool:
    text = ast.unparse(call)
    is_conditional = ast.unparse(call.func) == "pytest.mark.skipif"
    return is_conditional and ("BEYOND_CI[" in text or any(each in text for each in PLATFORM))


def test_every_skip_is_accounted_for() -> None:
    unaccounted = [
        f"{path.relative_to(TESTS)}:{call.lineno}: {ast.unparse(call)}"
        for path in sorted(TESTS.rglob("*.py"))
        # Taking a file apart is slow, and most have nothing to find.
        if path != Path(parts.__file__) and "skip" in (text := path.read_text("utf-8"))
        for call in skips(ast.parse(text))
        if not is_accounted_for(call)
    ]
    assert not unaccounted


def comments(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text("utf-8")
    lines = iter(text.splitlines(keepends=True) if "noqa" in text else ())
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_every_noqa_names_its_rules_and_says_why() -> None:
    root = TESTS.parent
    unexplained = [
        f"{path.relative_to(root)}:{line}: {text}"
        for folder in ("src", "tests", "bench", "tools")
        for path in sorted((root / folder).rglob("*.py"))
        for line, text in comments(path)
        if "# noqa" in text and not re.search(r"# noqa: [A-Z]+\d+(, [A-Z]+\d+)* - \w", text)
    ]
    assert not unexplained


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_part_fails_in_ci_alone(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-program is not installed"):
        parts.need("no-such-program")
    with pytest.raises(pytest.skip.Exception, match="which sandboxes forbid"):
        parts.lacking("ptrace")
