"""``keyferry diff`` as people run it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from keyferry.cli.main import main
from support.lint import config, write
from support.schemas import check_output

PROTOCOL = {"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "10m"}
Captured = pytest.CaptureFixture[str]


def written(folder: Path, name: str, **providers: list[str]) -> str:
    entries = [PROTOCOL | {"name": each, "matchImages": patterns} for each, patterns in providers.items()]
    return write(folder, config(providers=entries), name)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """An old config, and a new one in which an earlier provider covers the old one's registry."""
    old = written(tmp_path, "old.json", ecr=["reg.example", "gone.example"])
    return old, written(tmp_path, "new.json", wide=["*.example"], ecr=["reg.example"])


def test_nothing_changes(pair: tuple[str, str], capsys: Captured) -> None:
    assert main(["diff", pair[0], pair[0]]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "keyferry: nothing changes\n")


def test_the_table_lists_what_changes(tmp_path: Path, pair: tuple[str, str], capsys: Captured) -> None:
    images = tmp_path / "images"
    images.write_text("# ours\nreg.example/app:v1\n\nquay.io/app\n")
    assert main(["diff", *pair, "--images", str(images)]) == 1
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()] == [
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
    assert shown.err == "keyferry: 1 provider and 3 patterns change; 1 of 2 images changes\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_have_a_schema(
    pair: tuple[str, str], output: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"reg.example/app\n")))
    assert main(["diff", *pair, "--images", "-", "-o", output]) == 1
    out = capsys.readouterr().out
    check_output(out)
    if output == "json":
        document: dict[str, Any] = json.loads(out)
        assert document["kind"] == "ConfigComparison"
        assert document["comparedImages"] == 1
        assert document["images"][0]["differences"] == ["provider"]
        assert document["patterns"][-1]["by"] == {"provider": "wide", "pattern": "*.example"}


def test_a_config_that_stops_a_kubelet_is_an_error(
    tmp_path: Path, pair: tuple[str, str], capsys: Captured
) -> None:
    broken = write(tmp_path, config({"matchImages": []}), "broken.yaml")
    assert main(["diff", pair[0], broken]) == 3
    assert "matchImages is missing or empty" in capsys.readouterr().err
    assert main(["diff", pair[0], str(tmp_path / "nope")]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"keyferry: looked for {tmp_path / 'nope'}; ")
    assert main(["diff", *pair, "--images", str(tmp_path / "nope")]) == 3
    assert "no such file" in capsys.readouterr().err.lower()


def test_a_name_that_is_no_image_is_wrong_usage(
    tmp_path: Path, pair: tuple[str, str], capsys: Captured
) -> None:
    """Among others it is left out, with its line; a file without any image is refused."""
    images = tmp_path / "images"
    images.write_text("reg.example/app\n\nA B\n")
    assert main(["diff", *pair, "--images", str(images)]) == 1
    shown = capsys.readouterr()
    assert "reg.example/app" in shown.out
    first, summary = shown.err.splitlines()
    assert first.startswith(f"keyferry: {images}:3 is left out: ")
    assert "A B" in first
    assert summary.endswith("; 1 of 1 images changes")
    images.write_text("A B\n")
    assert main(["diff", *pair, "--images", str(images)]) == 2
    assert "has no line that is an image name" in capsys.readouterr().err


def test_changed_settings_show_old_and_new_without_secrets(tmp_path: Path, capsys: Captured) -> None:
    same: dict[str, object] = {"name": "ecr", "matchImages": ["reg.example"], **PROTOCOL}
    old = write(tmp_path, config(providers=[same | {"args": ["--x", "hunter2"]}]), "old.json")
    attributes = {
        "serviceAccountTokenAudience": "aud",
        "requireServiceAccount": True,
        "cacheType": "Token",
    }
    changed = {"defaultCacheDuration": "1h", "tokenAttributes": attributes}
    new = write(tmp_path, config(providers=[same | changed]), "new.json")
    assert main(["diff", old, new]) == 1
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out
    assert "args: ********, ********; defaultCacheDuration: 10m0s; tokenAttributes: none" in shown.out
    token = "tokenAttributes: serviceAccountTokenAudience: aud, cacheType: Token, requireServiceAccount: True"
    assert f"args: none; defaultCacheDuration: 1h0m0s; {token}" in shown.out
    assert shown.err == "keyferry: 1 provider changes\n"
    assert main(["diff", old, new, "-o", "json"]) == 1
    out = capsys.readouterr().out
    check_output(out)
    assert json.loads(out)["providers"][0]["values"][0] == {
        "setting": "args",
        "old": "********, ********",
        "new": "",
    }
