"""Configs to lint, and shortcuts to inspect the findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keyferry.lint.code import Finding
from keyferry.lint.kinds.federation import FederationFile
from keyferry.lint.kinds.providers import lint
from keyferry.lint.report import LintReport
from keyferry.lint.run import LintRequest, find_federations, lint_files
from keyferry.lint.source import read_source

SECRET = "hunter2-hunter2"


def config(provider: dict[str, object] | None = None, **fields: object) -> str:
    first: dict[str, object] = {
        "name": "plugin",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "defaultCacheDuration": "10m",
        "matchImages": ["reg.example"],
    }
    first |= provider or {}
    whole = {
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [first],
    }
    return json.dumps(whole | fields)


def write(folder: Path, text: str, name: str = "config.yaml") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return str(path)


def codes(report: LintReport) -> list[str]:
    return [finding.code for finding in report.findings]


def lint_provider(folder: Path, **fields: object) -> LintReport:
    return lint(write(folder, config(fields)))


def only(report: LintReport) -> Finding:
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def lint_target(path: str, *, bin_dir: str | None = None, **options: Any) -> LintReport:
    """Lint one file as the command does; *options* are fields of the request."""
    (report,) = lint_files(LintRequest(targets=((path, bin_dir),), **options)).reports
    return report


def federations(*paths: str) -> tuple[FederationFile, ...]:
    """The federation configs in files."""
    return tuple(find_federations(filter(None, map(read_source, paths))))
