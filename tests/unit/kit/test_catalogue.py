"""The kit's checks, and what its page says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keyferry.kit.checks.catalogue import CHECKS, checks_for
from keyferry.kit.checks.check import Check
from keyferry.kit.lab.experiments import EVERY_EXPERIMENT
from keyferry.kit.lab.requests import plan
from keyferry.kit.plugin import PluginKind, PluginUnderTest

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_of_codes_has_every_check() -> None:
    """In order, each with its row in the index, and a section with its severity, promise, cause and cure."""
    page = (DOCS / "kit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(KP\d+)\]\(#(kp\d+)\) \| (\w+) \| [a-z, ]+ \| (.*) \|$", page, re.MULTILINE)
    checks = CHECKS.values()
    assert rows == [(each.code, each.code.lower(), each.severity, each.title) for each in checks]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [each.code for each in checks]
    for each in checks:
        part = page.partition(f"\n## {each.code}\n")[2].partition("\n## ")[0]
        assert all(text in part for text in (each.severity, each.title, each.why, each.fix))


def test_the_example_run_shows_real_texts() -> None:
    """What the page shows of a report is what a report says."""
    page = (DOCS / "kit.md").read_text(encoding="utf-8")
    for code, title in re.findall(r"^[✓✗!] (KP\d+)  (.*)$", page, re.MULTILINE):
        assert CHECKS[code].title == title
    for text in re.findall(r"^    (?:why|change)\s+(.*)$", page, re.MULTILINE):
        assert any(text in (check.why, check.fix) for check in CHECKS.values())


def test_the_two_kinds_share_only_what_is_for_both() -> None:
    """Each kind has its own checks and all that begin with KP3."""
    image, cluster = (
        {check.code for check in checks_for(kind)} for kind in (PluginKind.IMAGE, PluginKind.CLUSTER)
    )
    assert image | cluster == CHECKS.keys()
    assert image & cluster == {code for code in CHECKS if code.startswith("KP3")}


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.code)
def test_texts_are_in_house_style(check: Check) -> None:
    """Titles, reasons and advice begin in lower case and have no final stop."""
    for text in (check.title, check.why, check.fix):
        assert text
        assert text[0].islower() or not text[0].isalpha()
        assert not text.endswith(".")


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.code)
def test_a_check_needs_experiments_that_are_made(check: Check) -> None:
    """Each name and each family is that of an experiment with plugins of a kind that the check is for."""
    made = set()
    for kind in check.kinds:
        plugin = PluginUnderTest(path="/plugin", kind=kind, images=("r.io/a", "r.io/b"))
        made |= {word for each in plan(plugin, "/nowhere") for word in (each.name, each.family)}
    assert check.needs
    assert [need for need in check.needs if need not in made | set(EVERY_EXPERIMENT)] == []


@pytest.mark.parametrize("code", ["KP127", "KP130", "KP214"])
def test_versions_that_nobody_configured_are_no_errors(code: str) -> None:
    """The kubelet and client-go ask in the version of their config."""
    assert CHECKS[code].severity == "warning"
