"""A node's file system that is made to harm who looks at it from a debug container: links out of it, loops, devices.

The container has files of the same names as the node, and what leads out of the node's folder leads to them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import plain_pod, run_keyferry
from support.host_root import CONFIG, IMAGE, REAL, USUAL, HostRoot
from support.parts import root
from support.plugins import provider_entry, write_config, write_executable
from support.records import NAME, plant

# A file that is larger than what is read; it takes no room on the disk.
HUGE_BYTES = 3 << 30


@pytest.fixture
def host(tmp_path: Path) -> HostRoot:
    return HostRoot(tmp_path / "host")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the container, with a provider config that is not the node's."""
    folder = tmp_path / "outside"
    folder.mkdir()
    write_config(folder / "config.json", [provider_entry("containers", matchImages=["registry.example"])])
    return folder


def up_to(path: Path) -> str:
    """Return a relative path that leads to *path* from anywhere, unless it stops at a root."""
    return "../" * 40 + str(path).lstrip("/")


@pytest.mark.parametrize("lead", [str, up_to], ids=["absolute", "relative"])
def test_a_config_that_leads_out_is_not_found(
    host: HostRoot, outside: Path, lead: Callable[[Path], str]
) -> None:
    host.at(f"{REAL}/config.json").unlink()
    host.link(f"{REAL}/config.json", lead(outside / "config.json"))
    done = host.run("explain", IMAGE, "--config", f"{REAL}/config.json", "--no-run", "-o", "wide")
    assert done.returncode == 3, done.stdout
    assert f"{REAL}/config.json: cannot be read: no such file or directory" in done.stderr
    assert "containers" not in done.stdout + done.stderr


def test_a_folder_on_the_way_that_leads_out_is_not_found(host: HostRoot, outside: Path) -> None:
    host.link(USUAL, str(outside))
    done = host.run("doctor", "-o", "json")
    assert "containers" not in done.stdout
    assert CONFIG not in [
        line["text"] for each in json.loads(done.stdout)["sections"] for line in each["lines"]
    ]


@pytest.mark.parametrize("path", ["/" + "../" * 40 + "{}", "/etc/" + "../" * 40 + "{}", "{}"])
def test_no_path_that_is_given_leads_out(host: HostRoot, outside: Path, path: str) -> None:
    given = path.format(outside / "config.json")
    done = host.run("explain", IMAGE, "--config", given, "--no-run")
    assert done.returncode == 3
    assert "cannot be read" in done.stderr


@root
def test_a_plugin_that_leads_out_is_not_run(host: HostRoot, outside: Path) -> None:
    """The kernel follows links below the folder that is the plugin's root, whatever was found before."""
    mark = outside / "ran"
    program = write_executable(outside / "plugin", f"#!/bin/sh\ntouch {mark}\n")
    host.link(f"{REAL}/ecr", str(program))
    done = host.run("explain", IMAGE, *plain_pod(outside))
    assert f"the executable {USUAL}/ecr is missing" in done.stdout
    assert not mark.exists()


@root
def test_the_program_and_its_interpreter_are_the_nodes(host: HostRoot, outside: Path) -> None:
    """Both exist in the container, too, under the same paths."""
    mark = outside / "ran"
    for name in ("ecr", "interpreter"):
        write_executable(outside / name, f"#!/bin/sh\ntouch {mark}\n")
    plugin = host.write(f"{outside}/ecr", f"#!{outside}/interpreter\n")
    plugin.chmod(0o755)
    words = ["--config", CONFIG, "--bin-dir", str(outside)]
    done = host.run("explain", IMAGE, *plain_pod(outside), *words)
    assert not mark.exists()
    assert (
        f"names the interpreter '{outside}/interpreter' in its first line, which does not exist"
        in done.stdout
    )


def test_a_loop_is_an_error(host: HostRoot) -> None:
    host.at(f"{REAL}/config.json").unlink()
    host.link(f"{REAL}/config.json", "/etc/one")
    host.link("/etc/one", "/etc/two")
    host.link("/etc/two", "/etc/one")
    done = host.run("explain", IMAGE, "--config", CONFIG, "--no-run")
    assert done.returncode == 3
    assert f"{CONFIG}: cannot be read: too many levels of symbolic links" in done.stderr
    for words in (["doctor"], ["records", "list", "--root", "/etc/one"], ["get", IMAGE, "--no-run"][:2]):
        assert "Traceback" not in host.run(*words).stderr


@pytest.mark.parametrize("which", ["config", "docker config", "kubelet config"])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_what_is_no_file_of_a_modest_size_is_not_waited_for(
    host: HostRoot, which: str, kind: str, tmp_path: Path
) -> None:
    path = {
        "config": f"{REAL}/config.json",
        "docker config": "/etc/login.json",
        "kubelet config": "/etc/kubelet.json",
    }[which]
    found = host.at(path)
    found.unlink(missing_ok=True)
    make_odd(found, kind)
    words = ["explain", IMAGE, "--no-run", *plain_pod(tmp_path), "--config", CONFIG]
    if which == "docker config":
        words += ["--docker-config", path]
    if which == "kubelet config":
        proc = tmp_path / "proc" / "7"
        proc.mkdir(parents=True)
        (proc / "cmdline").write_bytes(b"kubelet\0--config=/etc/kubelet.json\0")
        done = host.run("doctor", KEYFERRY_PROC=str(proc.parent))
    else:
        done = host.run(*words)
    said = done.stdout + done.stderr
    assert path.rpartition("/")[2] in said
    assert "Traceback" not in said


def make_odd(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(HUGE_BYTES)
    elif os.geteuid() == 0:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    else:
        os.mkfifo(path)


def test_records_that_lead_out_are_not_read(host: HostRoot, outside: Path) -> None:
    plant(outside)
    host.link("/var/lib/kubelet", str(outside))
    done = host.run("records", "list")
    assert done.returncode == 3
    assert NAME not in done.stdout


def test_escapes_in_names_do_nothing(tmp_path: Path) -> None:
    """In the name of the folder, and in the names of its links."""
    host = HostRoot(tmp_path / "a\x1b[2J\u202eb")
    host.link(f"{REAL}/ecr", "/opt/\x1b[31mred")
    for words in (["doctor"], ["explain", IMAGE, "--no-run", "-o", "wide"], ["records", "list"]):
        done = host.run(*words)
        for text in (done.stdout, done.stderr):
            assert "\x1b" not in text
            assert "\u202e" not in text
    wrong = run_keyferry("doctor", "--host-root", "/no\x1b[2Jwhere")
    assert "\x1b" not in wrong.stderr
