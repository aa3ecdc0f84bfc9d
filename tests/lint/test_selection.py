"""Which findings are shown, how they are counted, and where a code scanner marks them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from support.commands import run_in_process

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  matchImages: ["*.io", "*.com"]
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  token: secret-word
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "providers.yaml"
    path.write_text(CONFIG)
    return str(path)


def codes(text: str) -> list[str]:
    return re.findall(r"(?:error|warning|info) (KF\d+):", text)


@pytest.mark.parametrize(
    ("options", "expected", "status"),
    [
        pytest.param([], ["KF163", "KF163", "KF176", "KF107"], 1, id="all"),
        pytest.param(["--select", "KF176"], ["KF176"], 1, id="one code"),
        pytest.param(["--select", "kf17,KF10"], ["KF176", "KF107"], 1, id="beginnings, in any case"),
        pytest.param(["--ignore", "KF163", "--ignore", "KF107"], ["KF176"], 1, id="without two"),
        pytest.param(["--select", "KF17", "--ignore", "KF176"], [], 0, id="ignored although selected"),
        pytest.param(["--select", "KF2"], [], 0, id="none of another kind"),
        pytest.param(["--select", "KF1", "--severity", "error"], ["KF107"], 1, id="with a severity"),
    ],
)
def test_only_chosen_codes_are_shown_and_count(
    config: str, options: list[str], expected: list[str], status: int
) -> None:
    done = run_in_process("lint", config, *options)
    assert (codes(done.stdout), done.returncode) == (expected, status)
    assert ("not shown" in done.stderr) == (len(expected) < 4)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--select", "KF163,KX"), "no code begins with 'KX'"),
        (("--ignore", "KF1633"), "no code begins with 'KF1633'; did you mean 'KF163'?"),
        (("--list", "KF16"), "'KF16' is not a code; did you mean"),
        (("--statistics", "-o", "sarif"), "--statistics"),
    ],
)
def test_what_does_not_exist_is_wrong_usage(words: tuple[str, ...], problem: str) -> None:
    """A misspelt code is corrected."""
    done = run_in_process("lint", *words)
    assert (done.returncode, problem in done.stderr) == (2, True)


def test_statistics_count_each_code(config: str) -> None:
    done = run_in_process("lint", config, "--statistics", "--ignore", "KF107")
    assert done.returncode == 1
    lines = [line.split()[:3] for line in done.stdout.splitlines()]
    assert lines == [["2", "KF163", "warning"], ["1", "KF176", "warning"]]
    items = json.loads(run_in_process("lint", config, "--statistics", "-o", "json").stdout)["items"]
    assert [(each["count"], each["code"]) for each in items] == [(2, "KF163"), (1, "KF107"), (1, "KF176")]


def test_a_scanner_marks_a_whole_key_or_value(config: str) -> None:
    results = json.loads(run_in_process("lint", config, "-o", "sarif").stdout)["runs"][0]["results"]
    lines = CONFIG.splitlines()
    regions = [each["locations"][0]["physicalLocation"]["region"] for each in results]
    marked = [
        lines[each["startLine"] - 1][each["startColumn"] - 1 : each["endColumn"] - 1] for each in regions
    ]
    # An unknown field is unknown whatever its value is.
    assert marked == ['"*.io"', '"*.com"', "defaultCacheDuration: 0s", "token"]


def test_the_hook_of_pre_commit_checks_the_files_of_its_pattern(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "keyferry-lint"
    assert hook["language"] == "python"
    names = (
        "credential-provider-config.yaml",
        "node/credentialproviders.json",
        "prod.kubeconfig.yaml",
        "providers.yaml",
        "fleet/providers.json",
        "cluster-profile-providers.json",
        "kubeconfig",
        "home/kuberc",
        "my.kubeconfig",
        "credential-providers/ecr.yaml",
        "kubelet-config.yaml",
        "node/kubeletconfig.json",
        "federation.yaml",
    )
    assert [name for name in names if not re.search(hook["files"], name)] == []
    others = (
        "charts/values.yaml",
        "kubeconfig.go",
        "docs/kuberc.md",
        "my-providers.yaml",
        "kubeconfig/main.yaml",
    )
    assert [name for name in others if re.search(hook["files"], name)] == []
    path = tmp_path / "credential-provider.yaml"
    path.write_text(CONFIG)
    program, *words = hook["entry"].split()
    assert program == "keyferry"
    done = run_in_process(*words, str(path))
    assert (done.returncode, "KF107" in done.stdout) == (1, True)
