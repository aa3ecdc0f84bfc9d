"""``keyferry diff`` as people run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import run_in_process
from support.lint import config, write

PROTOCOL = {"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "10m"}


def written(folder: Path, name: str, **providers: list[str]) -> str:
    entries = [PROTOCOL | {"name": each, "matchImages": patterns} for each, patterns in providers.items()]
    return write(folder, config(providers=entries), name)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """An old config, and a new one in which an earlier provider covers the old one's registry."""
    old = written(tmp_path, "old.json", ecr=["reg.example", "gone.example"])
    return old, written(tmp_path, "new.json", wide=["*.example"], ecr=["reg.example"])


def test_nothing_changes(pair: tuple[str, str]) -> None:
    done = run_in_process("diff", pair[0], pair[0])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "keyferry: nothing changes\n")


def test_the_table_lists_what_changes(tmp_path: Path, pair: tuple[str, str]) -> None:
    images = tmp_path / "images"
    images.write_text("# ours\nreg.example/app:v1\n\nquay.io/app\n")
    done = run_in_process("diff", *pair, "--images", str(images))
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["WHAT", "NAME", "CHANGE", "OLD", "NEW"],
        ["provider", "wide", "new"],
        ["pattern", "gone.example", "gone", "ecr"],
        ["pattern", "*.example", "new", "wide"],
        ["pattern", "reg.example", "shadowed", "ecr", "after", "wide", "(*.example)"],
        [
            *("image", "reg.example/app:v1", "provider", "ecr", "(reg.example)"),
            *("wide", "(*.example),", "ecr", "(reg.example)"),
        ],
    ]
    assert done.stderr == "keyferry: 1 provider and 3 patterns change; 1 of 2 images changes\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_have_a_schema(pair: tuple[str, str], output: str) -> None:
    """The list of images may come from standard input."""
    done = run_in_process("diff", *pair, "--images", "-", "-o", output, stdin="reg.example/app\n")
    assert done.returncode == 1
    document: dict[str, Any] = yaml.safe_load(done.stdout)
    assert document["kind"] == "ConfigComparison"
    assert document["comparedImages"] == 1
    assert document["images"][0]["differences"] == ["provider"]
    assert document["patterns"][-1]["by"] == {"provider": "wide", "pattern": "*.example"}


def test_a_config_that_stops_a_kubelet_is_an_error(tmp_path: Path, pair: tuple[str, str]) -> None:
    broken = write(tmp_path, config({"matchImages": []}), "broken.yaml")
    nope = str(tmp_path / "nope")
    refused = run_in_process("diff", pair[0], broken)
    missing = run_in_process("diff", pair[0], nope)
    unlisted = run_in_process("diff", *pair, "--images", nope)
    assert [done.returncode for done in (refused, missing, unlisted)] == [3, 3, 3]
    assert "matchImages is missing or empty" in refused.stderr
    assert missing.stderr.splitlines()[-1].startswith(f"keyferry: looked for {nope}; ")
    assert "no such file" in unlisted.stderr.lower()


def test_a_name_that_is_no_image_is_wrong_usage(tmp_path: Path, pair: tuple[str, str]) -> None:
    """Among others it is left out, with its line; a file without any image is refused."""
    images = tmp_path / "images"
    images.write_text("reg.example/app\n\nA B\n")
    done = run_in_process("diff", *pair, "--images", str(images))
    assert done.returncode == 1
    assert "reg.example/app" in done.stdout
    first, summary = done.stderr.splitlines()
    assert first.startswith(f"keyferry: {images}:3 is left out: ")
    assert "A B" in first
    assert summary.endswith("; 1 of 1 images changes")
    images.write_text("A B\n")
    refused = run_in_process("diff", *pair, "--images", str(images))
    assert refused.returncode == 2
    assert "has no line that is an image name" in refused.stderr


def test_changed_settings_show_old_and_new_without_secrets(tmp_path: Path) -> None:
    same: dict[str, object] = {"name": "ecr", "matchImages": ["reg.example"], **PROTOCOL}
    old = write(tmp_path, config(providers=[same | {"args": ["--x", "hunter2"]}]), "old.json")
    attributes = {"serviceAccountTokenAudience": "aud", "requireServiceAccount": True, "cacheType": "Token"}
    changed = {"defaultCacheDuration": "1h", "tokenAttributes": attributes}
    new = write(tmp_path, config(providers=[same | changed]), "new.json")
    shown = run_in_process("diff", old, new)
    assert shown.returncode == 1
    assert "hunter2" not in shown.stdout
    assert "args: ********, ********; defaultCacheDuration: 10m0s; tokenAttributes: none" in shown.stdout
    token = "tokenAttributes: serviceAccountTokenAudience: aud, cacheType: Token, requireServiceAccount: True"
    assert f"args: none; defaultCacheDuration: 1h0m0s; {token}" in shown.stdout
    assert shown.stderr == "keyferry: 1 provider changes\n"
    document = json.loads(run_in_process("diff", old, new, "-o", "json").stdout)
    assert document["providers"][0]["values"][0] == {
        "setting": "args",
        "old": "********, ********",
        "new": "",
    }
