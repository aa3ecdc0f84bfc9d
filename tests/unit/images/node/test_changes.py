"""Files that changed after the kubelet started, which it has not read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from keyferry.images.config.contents import hash_of_files
from keyferry.images.node.changes import ChangedFile, changed_at, newer_than_kubelet, read_config_hash
from keyferry.images.node.settings import KubeletSettings, Node
from support.kubelets import Processes, write_config


def settings_of(processes: Processes) -> KubeletSettings:
    """The settings of the only kubelet."""
    settings = Node(str(processes)).settings
    assert settings is not None
    return settings


def touch(path: Path, seconds: float = 60) -> float:
    """Change a file in the future, which no test waits for; return the time."""
    then = float(int(time.time() + seconds))
    os.utime(path, (then, then))
    return then


def test_the_start_of_a_running_kubelet_is_known(processes: Processes) -> None:
    before = time.time()
    with processes.kubelet():
        started = settings_of(processes).kubelet.started
    assert started is not None
    assert before - 1.1 <= started <= time.time()


@pytest.mark.parametrize(
    ("stat", "system", "expected"),
    [
        (b"17 (a) b (c)) S" + b" 1" * 18 + b" 200 7", b"cpu 1\nbtime 1700000000\n", True),
        (b"17 (kubelet) S 1", b"btime 1700000000\n", False),
        (b"17 (kubelet) S" + b" 1" * 18 + b" 200 7", b"cpu 1\n", False),
        (b"17 (kubelet) S" + b" 1" * 18 + b" 200 7", None, False),
    ],
    ids=["name-with-brackets", "short", "no-boot-time", "no-system"],
)
def test_a_folder_of_processes_has_its_own_times(
    processes: Processes, stat: bytes, system: bytes | None, expected: bool
) -> None:
    """As the host's, in a container; what is not there is not guessed."""
    processes.write(17, "kubelet", stat=stat)
    if system is not None:
        (processes.folder / "stat").write_bytes(system)
    started = settings_of(processes).kubelet.started
    assert started == (1_700_000_000 + 200 / os.sysconf("SC_CLK_TCK") if expected else None)


def test_a_folder_of_configs_is_as_new_as_its_newest_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    (tmp_path / "b.yaml").touch()
    assert touch(tmp_path / "b.yaml") == changed_at(str(tmp_path))
    assert touch(tmp_path, 120) == changed_at(str(tmp_path))
    assert changed_at(str(tmp_path / "gone")) is None


def test_a_link_that_is_set_to_an_old_file_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (1, 1))
    (tmp_path / "link").symlink_to("old")
    os.utime(tmp_path / "link", (2_000_000_000, 2_000_000_000), follow_symlinks=False)
    assert changed_at(str(tmp_path / "link")) == 2_000_000_000


def test_every_file_that_changed_after_the_start_is_named(processes: Processes, tmp_path: Path) -> None:
    """The files were written before the kubelet started, then some of them change."""
    config = write_config(tmp_path / "kubelet.yaml")
    first = write_config(tmp_path / "conf.d" / "1.conf")
    second = write_config(tmp_path / "conf.d" / "2.conf")
    providers = tmp_path / "providers.yaml"
    providers.write_text("a")
    with processes.kubelet(f"--config={config}", f"--config-dir={tmp_path}/conf.d"):
        settings = settings_of(processes)
        assert settings.files == (str(config), str(first), str(second))
        assert newer_than_kubelet(settings, str(providers)) == ()
        times = [touch(path) for path in (config, second, providers)]
        newer = newer_than_kubelet(settings, str(providers))
        assert [(each.path, each.changed, each.kind) for each in newer] == [
            (str(config), times[0], ChangedFile.KUBELET_CONFIG),
            (str(second), times[1], ChangedFile.KUBELET_CONFIG),
            (str(providers), times[2], ChangedFile.PROVIDER_CONFIG),
        ]
        assert {each.started for each in newer} == {settings.kubelet.started}
        assert not any(each.is_certain for each in newer)


def test_the_hash_that_the_kubelet_tells_decides(processes: Processes, tmp_path: Path) -> None:
    """Whatever the times are: a file may be written again without a change, or with an old time."""
    providers = tmp_path / "providers.yaml"
    providers.write_text("a")
    read = hash_of_files(str(providers))
    with processes.kubelet():
        settings = settings_of(processes)
        assert newer_than_kubelet(settings, str(providers), "sha256:" + "0" * 64)[0].is_certain
        touch(providers)
        assert newer_than_kubelet(settings, str(providers), read) == ()


def test_the_hash_is_read_from_metrics() -> None:
    name, digest = "kubelet_credential_provider_config_info", "sha256:" + "0a" * 32
    text = f'# HELP {name} x\n# TYPE {name} gauge\n{name}{{hash="{digest}"}} 1\nother 2\n'
    assert read_config_hash(text) == digest
    assert read_config_hash("other 2\n") == ""
