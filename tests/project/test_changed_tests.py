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
        ("src/keyferry/__init__.py", "tests/test_library.py tests/test_exports.py"),
        ("src/keyferry/images/match.py", "tests/images tests/conformance tests/property/test_match_property.py"),
        ("src/keyferry/agent/access.py", "tests/agent tests/attacks/test_agent.py tests/attacks/test_agent_clients.py"),
        ("src/keyferry_plugins/aws/sts.py", "tests/plugins tests/attacks/test_cloud_names.py"),
        ("native/shim.c", "tests/bridge/test_shims.py"),
        ("tools/mutants.py", "tests/project"),
        ("pyproject.toml", "tests/project tests/test_docs.py"),
        ("hatch_build.py", "tests/project"),
        ("Makefile", "tests/pages/test_commands.py"),
        ("mkdocs.yml", "tests/test_front_door.py"),
        ("deploy/README.md", "tests/deploy tests/pages"),
        ("bench/fleet_model.py", "tests/bench"),
        ("tests/test_docs.py", "tests/test_docs.py"),
        ("tests/sdk/conftest.py", "tests/sdk"),
        ("tests/conformance/vectors/match.json", "tests/conformance"),
        ("tests/support/kubernetes_lists.py", "tests/attacks/test_far_node.py"),  # imported by other modules there
        ("tests/support/public_names.py", "tests/test_exports.py"),
    ],
)  # fmt: skip
def test_a_change_selects_the_tests_of_what_it_touches(changed: str, tests: str) -> None:
    assert set(tests.split()) <= set(changed_tests.tests_of(changed))


@pytest.mark.parametrize("folder", ["attacks", "property"])
def test_every_attack_and_property_is_run_for_some_change_of_the_sources(folder: str) -> None:
    found = {
        each
        for path in (ROOT / "src").glob("*/*")
        for each in changed_tests.tests_of(f"{path.relative_to(ROOT)}/x")
    }
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / folder).glob("test_*")} <= found


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
