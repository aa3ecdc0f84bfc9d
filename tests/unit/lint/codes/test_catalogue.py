"""The table of codes is complete, and written to be read."""

import re
from pathlib import Path

import pytest

import keyferry
from keyferry._core.severity import Severity
from keyferry.lint.codes.catalogue import CODES, Code

SOURCES = Path(keyferry.__file__).parent
TABLES = ("codes.py", "codes_refused.py", "codes_suspect.py", "codes_clusters.py", "codes_kuberc.py")


def _used() -> set[str]:
    files = (path for path in SOURCES.rglob("*.py") if path.name not in TABLES)
    return {code for path in files for code in re.findall(r"\bKF\d{3}\b", path.read_text("utf-8"))}


def test_every_code_in_the_sources_is_explained_and_every_explained_one_is_used() -> None:
    assert _used() == set(CODES)


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.code)
def test_a_code_says_why_it_matters_and_what_to_do(code: Code) -> None:
    assert isinstance(code.severity, Severity)
    for text in (code.title, code.why, code.fix):
        assert text
        assert not text.endswith(".")
        assert text == text.strip()


def test_refusals_are_errors_and_the_rest_is_not() -> None:
    """In each hundred: KF1 for provider configs, KF2 for kubeconfigs, KF3 for kuberc, KF6 for federation configs."""
    for hundred in ("KF1", "KF2", "KF3", "KF6"):
        codes = {name: code for name, code in CODES.items() if name.startswith(hundred)}
        assert {code.severity for name, code in codes.items() if name[3:] < "50"} == {"error"}
        assert {code.severity for name, code in codes.items() if name[3:] >= "50"} == {"warning", "info"}


def test_codes_are_listed_in_order() -> None:
    assert list(CODES) == sorted(CODES)
