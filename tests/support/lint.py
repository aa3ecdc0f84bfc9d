"""Configs to lint, and what lint finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keyferry.lint.code import Finding
from keyferry.lint.report import LintReport
from keyferry.lint.run import LintRequest, lint_files

# The type of a report, for tests that hand one around.
Report = LintReport
SECRET = "hunter2-hunter2"
# A provider config and a kubeconfig without a finding, as texts.
GOOD = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 10m
  matchImages:
  - reg.example
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster:
    server: https://k:6443
contexts:
- name: c
  context:
    cluster: k
    user: u
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: /bin/sh
      interactiveMode: Never
"""


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


def write(folder: Path, text: str, name: str = "config.yaml", mode: int = 0o644) -> str:
    path = folder / name
    path.write_bytes(text.encode())
    path.chmod(mode)
    return str(path)


def lint_target(path: str, *beside: str, bin_dir: str | None = None, **options: Any) -> Report:
    """Lint one file as the command does, with other files *beside* it; *options* are fields of the request."""
    targets = ((path, bin_dir), *((each, None) for each in beside))
    return lint_files(LintRequest(targets=targets, **options)).reports[0]


def lint_provider(folder: Path, **fields: object) -> Report:
    return lint_target(write(folder, config(fields)))


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def places(report: Report) -> list[tuple[str, str, int | None]]:
    """The code, path and line of each finding."""
    return [(each.code, each.path, each.line) for each in report.findings]


def only(report: Report) -> Finding:
    assert len(report.findings) == 1, report.findings
    return report.findings[0]
