"""Who could change a config or a plugin, and which files and documents a kubelet ignores."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keyferry.invoke.shim import MARK
from keyferry.lint.kinds.providers import lint
from support.lint import codes, config, only, write
from support.parts import root


def test_old_config_versions_and_later_documents_are_named(tmp_path: Path) -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n"
    provider = json.dumps(json.loads(config())["providers"][0])
    report = lint(write(tmp_path, f"{text}- {provider}\n---\n# nothing\n---\nproviders: []\n"))
    assert [(finding.code, finding.line) for finding in report.findings] == [("KF179", 1), ("KF180", 7)]
    assert lint(write(tmp_path, f"---\n{text.replace('beta1', '')}- {provider}\n---\n# end\n")).findings == ()


def test_entries_of_a_directory_that_are_ignored_are_named(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.YAML", "c.yaml.bak", "d.yaml~", "e", "..data"):
        write(tmp_path, config(), name)
    (tmp_path / "sub").mkdir()
    report = lint(str(tmp_path))
    assert set(codes(report)) == {"KF181"}
    assert [os.path.basename(finding.file) for finding in report.findings] == [
        "b.YAML",
        "c.yaml.bak",
        "d.yaml~",
        "e",
        "sub",
    ]
    assert "rename it to 'b.yaml'" in report.findings[0].message


def test_plugins_beside_their_config_are_no_ignored_files(tmp_path: Path) -> None:
    write(tmp_path, config())
    (tmp_path / "plugin").write_text("#!/bin/sh\n")
    (tmp_path / "plugin").chmod(0o755)
    tmp_path.chmod(0o755)
    assert lint(str(tmp_path), bin_dir=str(tmp_path)).findings == ()


def put_shim(home: Path) -> None:
    """Put a shim in front of the plugin."""
    (home / "plugin").rename(home / "plugin.real")
    (home / "plugin").write_bytes(MARK)
    (home / "plugin").chmod(0o755)
    (home / "plugin.agent").symlink_to("/run/keyferry/agent.sock")


def test_the_files_of_a_shim_are_no_ignored_files(tmp_path: Path) -> None:
    write(tmp_path, config())
    (tmp_path / "plugin").write_text("#!/bin/sh\n")
    (tmp_path / "plugin").chmod(0o755)
    tmp_path.chmod(0o755)
    put_shim(tmp_path)
    assert lint(str(tmp_path), bin_dir=str(tmp_path)).findings == ()


def test_the_plugin_behind_a_shim_is_looked_at(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    put_shim(home)
    assert lint(path, bin_dir=str(home)).findings == ()
    (home / "plugin.real").chmod(0o775)
    finding = only(lint(path, bin_dir=str(home)))
    assert finding.code == "KF191"
    assert "plugin.real" in finding.message


@pytest.mark.parametrize(("mode", "who"), [(0o664, "its group"), (0o646, "everybody")])
def test_a_config_that_others_can_write_is_named(tmp_path: Path, mode: int, who: str) -> None:
    path = write(tmp_path, config())
    os.chmod(path, mode)
    finding = only(lint(path))
    assert finding.code == "KF182"
    assert finding.message.startswith(who)


def _bin_dir(folder: Path) -> Path:
    home = folder / "bin"
    home.mkdir(mode=0o755)
    (home / "plugin").write_text("#!/bin/sh\n")
    (home / "plugin").chmod(0o755)
    return home


def test_plugins_and_their_folder_are_looked_at(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    assert lint(path, bin_dir=str(home)).findings == ()
    home.chmod(0o777)
    (home / "plugin").chmod(0o775)
    assert codes(lint(path, bin_dir=str(home))) == ["KF190", "KF191"]
    (home / "plugin").chmod(0o644)
    home.chmod(0o755)
    assert codes(lint(path, bin_dir=str(home))) == ["KF142"]
    (home / "plugin").unlink()
    assert codes(lint(path, bin_dir=str(home))) == ["KF141"]
    missing = lint(path, bin_dir=str(tmp_path / "none"))
    assert codes(missing) == ["KF140"]
    assert missing.kubernetes_text.endswith("did not exist")


def test_links_are_followed(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    (home / "plugin").rename(home / "real")
    (home / "plugin").symlink_to("real")
    assert lint(path, bin_dir=str(home)).findings == ()
    out = tmp_path / "out"
    out.mkdir()
    (home / "real").rename(out / "real")
    (home / "plugin").unlink()
    (home / "plugin").symlink_to(out / "real")
    out.chmod(0o755)
    assert codes(lint(path, bin_dir=str(home))) == ["KF193"]
    out.chmod(0o777)
    (out / "real").chmod(0o777)
    assert codes(lint(path, bin_dir=str(home))) == ["KF191", "KF191", "KF193"]


@root
def test_plugins_of_other_users_are_named(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    os.chown(home, 4242, -1)
    os.chown(home / "plugin", 4242, -1)
    assert codes(lint(path, bin_dir=str(home))) == ["KF192", "KF192"]


def test_a_refused_name_is_not_looked_for(tmp_path: Path) -> None:
    """A name that leads out of the bin dir is refused, and nothing outside is touched."""
    path, home = write(tmp_path, config({"name": "../plugin"})), _bin_dir(tmp_path)
    assert codes(lint(path, bin_dir=str(home))) == ["KF121"]
    assert codes(lint(write(tmp_path, config({"name": ""})), bin_dir=str(home))) == ["KF142"]
