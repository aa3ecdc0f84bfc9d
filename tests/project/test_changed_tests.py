"""``make check``: what changed decides which tests are run, and what is not run is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import changed_tests

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/keyferry/__init__.py", {"tests/test_exports.py"}),
        ("src/keyferry/images/match.py", {"tests/images", "tests/conformance"}),
        ("src/keyferry_plugins/aws/sts.py", {"tests/plugins", "tests/attacks/test_cloud_names.py"}),
        ("deploy/README.md", {"tests/deploy", "tests/pages"}),
        ("tests/test_docs.py", {"tests/test_docs.py"}),
        ("tests/sdk/conftest.py", {"tests/sdk"}),
        ("tests/conformance/vectors/match.json", {"tests/conformance"}),
        # Imported by other modules of tests/support.
        ("tests/support/kubernetes_lists.py", {"tests/attacks/test_far_node.py"}),
    ],
)
def test_a_change_selects_the_tests_of_what_it_touches(changed: str, tests: set[str]) -> None:
    assert tests <= set(changed_tests.tests_of(changed))


def test_every_attack_and_property_is_run_for_some_change_of_the_sources() -> None:
    sources = (path.relative_to(ROOT) for path in (ROOT / "src").glob("*/*"))
    found = {each for path in sources for each in changed_tests.tests_of(f"{path}/x")}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in ("attacks", "property")
        for path in (ROOT / "tests" / folder).glob("test_*")
    }
    assert wanted <= found


def test_an_unknown_commit_selects_nothing_and_fails() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "changed_tests.py"), "no-such-commit"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no-such-commit" in done.stderr
