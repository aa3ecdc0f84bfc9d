"""The steps that look at the sources: they build and install nothing."""

from __future__ import annotations

import os
import re
import sys

from release.subject import ROOT, Problem, Release, run


def check_tree(_release: Release) -> str:
    """Everything is committed."""
    changed = run("git", "-C", str(ROOT), "status", "--porcelain").splitlines()
    if changed:
        raise Problem(f"{len(changed)} files differ from the last commit: {', '.join(changed[:3])}")
    return run("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()


def check_version(release: Release) -> str:
    """pyproject.toml, the module and the CHANGELOG name one version."""
    text = (ROOT / "src" / "keyferry" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    if found is None or found[1] != release.version:
        raise Problem(f"pyproject.toml has {release.version}, keyferry.__version__ {found and found[1]}")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = next(iter(re.findall(r"^## (.*)", changes, re.MULTILINE)), "nothing")
    if not re.fullmatch(rf"\[?{re.escape(release.version)}\]? \W \d{{4}}-\d\d-\d\d", first):
        raise Problem(f"the first heading of CHANGELOG.md is {first!r}, not '{release.version} - YYYY-MM-DD'")
    return release.version


def check_address(release: Release) -> str:
    """The project has an address, and an index shows it."""
    urls = release.project.get("urls", {})
    if not urls:
        raise Problem("pyproject.toml has no [project.urls]")
    if "no public address yet" in (ROOT / "SECURITY.md").read_text(encoding="utf-8"):
        raise Problem("SECURITY.md names no place for reports")
    if 'DOCS_ADDRESS = ""' in (ROOT / "src/keyferry/show/reports.py").read_text(encoding="utf-8"):
        raise Problem("keyferry/show/reports.py has no DOCS_ADDRESS")
    return ", ".join(sorted(urls))


def check_generated(_release: Release) -> str:
    """The generated pages are those of the sources."""
    source = str(ROOT / "src")
    out = run(
        sys.executable,
        str(ROOT / "tools" / "generate_docs.py"),
        "--check",
        env=os.environ | {"PYTHONPATH": source},
    )
    return out.strip() or "up to date"


def check_licenses(release: Release) -> str:
    """The licence is there, and the metadata names it."""
    if not (ROOT / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License"):
        raise Problem("LICENSE is not the Apache License")
    if release.project["license"] != "Apache-2.0":
        raise Problem(f"pyproject.toml has the licence {release.project['license']!r}")
    return "Apache-2.0"
