"""An entry in the kubelet's config: added at the end and taken away, every other byte kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from keyferry import EnvironmentProblem
from keyferry._core.documents import read_document
from keyferry.bridge.file_change import apply_change
from keyferry.bridge.kubelet_entry import plan_entry_install, plan_entry_uninstall

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a kubelet's shim is for Linux")
HEAD = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
ITEM = """\
- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com",
    "other.example"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  env:
  - name: KEY
    value: secret-word"""
PATTERNS = ["ghcr.io", "*.example"]
ENTRY = {
    "name": "keyferry",
    "matchImages": PATTERNS,
    "defaultCacheDuration": "10m",
    "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
}


def read(text: str | bytes) -> dict[str, Any]:
    """Return the document in a text."""
    found = read_document(text.encode() if isinstance(text, str) else text).value
    assert isinstance(found, dict)
    return found


DOCUMENT = read(f"{HEAD}providers:\n{ITEM}\n")


def indented(text: str, by: str) -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


CONFIGS = {
    "block": f"{HEAD}providers:\n{ITEM}\n",
    "block-indented": f"{HEAD}providers:\n{indented(ITEM, '    ')}\n",
    "no-last-line-break": f"{HEAD}providers:\n{ITEM}",
    "comment-after": f"{HEAD}providers:\n{ITEM} # why\n# the end\n\n",
    "providers-first": f"# top\nproviders:\n{ITEM}\n\n# about the rest\n{HEAD}",
    "windows-line-ends": f"{HEAD}providers:\n{ITEM}\n".replace("\n", "\r\n"),
    "flow": f"{HEAD}providers: [{json.dumps(DOCUMENT['providers'][0])}]\n",
    "flow-over-lines": f"{HEAD}providers: [\n  {json.dumps(DOCUMENT['providers'][0])}  # one\n  ]\n",
    "json": json.dumps(DOCUMENT),
    "json-indented": json.dumps(DOCUMENT, indent=2) + "\n",
    "json-tabs": json.dumps(DOCUMENT, indent="\t"),
    "document-start": f"---\n{HEAD}providers:\n{ITEM}\n",
    "block-scalar": f"{HEAD}providers:\n{ITEM.replace('value: secret-word', 'value: |-')}\n      secret-word\n",
}


@pytest.fixture(params=CONFIGS.values(), ids=list(CONFIGS))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A config in one of many styles."""
    found = tmp_path / "config.yaml"
    found.write_bytes(request.param.encode())
    found.chmod(0o640)
    return found


def test_there_and_back_every_byte_is_kept(path: Path) -> None:
    before = path.read_bytes()
    change = plan_entry_install(str(path), "keyferry", PATTERNS)
    assert "secret-word" not in change.diff
    assert "ghcr.io" in change.diff
    assert path.read_bytes() == before
    apply_change(change)
    after = path.read_bytes()
    assert read(after)["providers"] == [*DOCUMENT["providers"], ENTRY]
    # One piece was put in; what is before and after it has not changed.
    start = next(
        at for at in range(len(after)) if after[:at] + after[at + len(after) - len(before) :] == before
    )
    assert 0 < start < len(after)
    assert path.stat().st_mode & 0o777 == 0o640
    undo = plan_entry_uninstall(str(path), "keyferry")
    assert "secret-word" not in undo.diff
    apply_change(undo)
    assert path.read_bytes() == before


def test_an_entry_between_others_is_taken_away(tmp_path: Path) -> None:
    """Also the first one, and in JSON."""
    for style in ("block", "json-indented", "flow"):
        path = tmp_path / style
        path.write_text(CONFIGS[style])
        apply_change(plan_entry_install(str(path), "keyferry", ["ghcr.io"]))
        apply_change(plan_entry_install(str(path), "third", ["third.example"]))
        for name, left in (("keyferry", ["ecr", "third"]), ("ecr", ["third"])):
            apply_change(plan_entry_uninstall(str(path), name))
            found = read(path.read_bytes())
            assert [each["name"] for each in found["providers"]] == left


def test_its_own_entry_gets_other_patterns_and_every_other_byte_is_kept(path: Path) -> None:
    before = path.read_bytes()
    apply_change(plan_entry_install(str(path), "keyferry", ["ghcr.io"]))
    change = plan_entry_install(str(path), "keyferry", PATTERNS, is_own=True)
    assert '   - "ghcr.io"' in change.diff
    assert '+  - "*.example"' in change.diff
    assert "secret-word" not in change.diff
    apply_change(change)
    assert read(path.read_bytes())["providers"] == [*DOCUMENT["providers"], ENTRY]
    assert not plan_entry_install(str(path), "keyferry", PATTERNS, is_own=True).diff
    apply_change(plan_entry_uninstall(str(path), "keyferry"))
    assert path.read_bytes() == before


def test_what_somebody_added_to_its_own_entry_stays(path: Path) -> None:
    """Also if other providers follow."""
    apply_change(plan_entry_install(str(path), "keyferry", ["ghcr.io"]))
    text = path.read_text().replace("10m", "5m")
    path.write_text(text)
    apply_change(plan_entry_install(str(path), "third", ["third.example"]))
    apply_change(plan_entry_install(str(path), "keyferry", PATTERNS, is_own=True))
    found = read(path.read_bytes())["providers"]
    assert [each["name"] for each in found] == ["ecr", "keyferry", "third"]
    assert found[1] == {**ENTRY, "defaultCacheDuration": "5m"}


def test_what_is_there_already_is_left(path: Path) -> None:
    apply_change(plan_entry_install(str(path), "keyferry", ["ghcr.io"]))
    again = plan_entry_install(str(path), "keyferry", ["other.example"])
    assert again.before == again.after
    assert "has a provider 'keyferry' already" in again.notes[0]
    none = plan_entry_uninstall(str(path), "elsewhere")
    assert none.before == none.after


@pytest.mark.parametrize(
    ("text", "patterns", "problem"),
    [
        ("{", ["ghcr.io"], "is refused by the kubelet"),
        (f"{HEAD}providers: []\n", ["ghcr.io"], "is refused by the kubelet"),
        (CONFIGS["block"], ["a b"], "KF"),
        (f"{HEAD}providers: &all\n{ITEM}\nmore: *all\n", ["ghcr.io"], "is refused by the kubelet"),
    ],
)
def test_a_config_that_would_be_refused_is_not_written(
    tmp_path: Path, text: str, patterns: list[str], problem: str
) -> None:
    """What is broken before stays as it is, too."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(EnvironmentProblem, match=problem):
        plan_entry_install(str(path), "keyferry", patterns)
    assert path.read_text() == text


def test_a_config_that_is_gone_has_no_entry(tmp_path: Path) -> None:
    change = plan_entry_uninstall(str(tmp_path / "none.yaml"), "keyferry")
    assert (change.before, change.after, change.diff) == (None, None, "")
    assert change.notes == (f"{tmp_path}/none.yaml is gone, and with it the entry of 'keyferry'",)


def test_the_last_provider_stays(tmp_path: Path) -> None:
    """A kubelet does not start with a config that has none."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGS["block"])
    change = plan_entry_uninstall(str(path), "ecr")
    assert change.before == change.after
    assert "has no other provider" in change.notes[0]


def test_a_folder_gets_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "10-ecr.yaml").write_text(CONFIGS["block"])
    change = plan_entry_install(str(tmp_path), "keyferry", ["ghcr.io"])
    assert change.path == str(tmp_path / "zz-keyferry.yaml")
    apply_change(change)
    assert (tmp_path / "zz-keyferry.yaml").stat().st_mode & 0o777 == 0o644
    apply_change(plan_entry_install(str(tmp_path), "keyferry", PATTERNS))
    assert read((tmp_path / "zz-keyferry.yaml").read_bytes())["providers"] == [ENTRY]
    assert plan_entry_install(str(tmp_path), "keyferry", PATTERNS).notes
    apply_change(plan_entry_uninstall(str(tmp_path), "keyferry"))
    assert [each.name for each in tmp_path.iterdir()] == ["10-ecr.yaml"]


def test_a_file_of_that_name_that_is_not_ours_stays(tmp_path: Path) -> None:
    other = CONFIGS["block"].replace("name: ecr", "name: other")
    (tmp_path / "zz-keyferry.yaml").write_text(other)
    with pytest.raises(EnvironmentProblem, match="was not written by keyferry"):
        plan_entry_install(str(tmp_path), "keyferry", ["ghcr.io"])
    with pytest.raises(EnvironmentProblem, match="was not written by keyferry"):
        plan_entry_uninstall(str(tmp_path), "keyferry")
