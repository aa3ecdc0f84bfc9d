"""Files of container runtimes that are made to harm whoever reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.commands import Node, plain_pod, run_keyferry
from support.mirrors import CERTS, CONFIG, REGISTRIES, write

EVIL = "a\\u001b[2J\\u202eb"


def make_fifo(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(path)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path).add("own", ["reg.io"])


def explained(node: Node, *options: str) -> str:
    """What explain and doctor say of a node's files, which must not stop them."""
    explain = run_keyferry("explain", "reg.io/app", *plain_pod(node.folder), *node.options(), *options)
    assert explain.returncode == 0, explain.stderr
    doctor = run_keyferry("doctor", *node.options(), *options)
    assert doctor.returncode in (0, 1), doctor.stderr
    for done in (explain, doctor):
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
    return explain.stdout + doctor.stdout


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + "[" * 100_000, id="nested arrays"),
        pytest.param(f"{'a.' * 50_000}b = 1", id="nested keys"),
        pytest.param(f"x = {{{'a.' * 900}b = 1}}", id="keys that are nested less"),
        pytest.param(f'[host."https://{EVIL}"]\n[host."https://m"]\n', id="control characters in a name"),
        pytest.param(f'[host."https://m"]\ncapabilities = ["{EVIL}"]\n', id="control characters in a value"),
        pytest.param(f'"{EVIL}" = 1\n"{EVIL}" = 2\n', id="control characters in a repeated key"),
        pytest.param("# " + "x" * (2 << 20), id="2 MiB"),
        pytest.param('server = 5\nhost = [1]\n[header]\nAuthorization = "Basic c2VjcmV0"', id="wrong types"),
    ],
)
def test_a_hosts_file_does_no_harm(node: Node, text: str) -> None:
    write(node.folder, CERTS / "reg.io" / "hosts.toml", text)
    said = explained(node, "--hosts-dir", str(node.folder / CERTS))
    assert "c2VjcmV0" not in said


@pytest.mark.parametrize(
    "text",
    [
        f'[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\nlocation = "{EVIL}"\n',
        f'[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\nlocation = "m"\npull-from-mirror = "{EVIL}"\n',
        f'[[registry]]\nprefix = "{EVIL}"\nlocation = "reg.io"\n',
        "registry = [1, [2], {}]\n",
    ],
)
def test_a_registries_file_does_no_harm(node: Node, text: str) -> None:
    explained(node, "--registries-conf", write(node.folder, REGISTRIES, text))


@pytest.mark.parametrize("make", [make_fifo, make_loop])
def test_what_is_no_file_neither_blocks_nor_stops(node: Node, make: object) -> None:
    assert callable(make)
    path = node.folder / CERTS / "reg.io" / "hosts.toml"
    make(path)
    assert "may name a mirror, but it " in " ".join(
        explained(node, "--hosts-dir", str(node.folder / CERTS)).split()
    )


def test_imports_that_go_in_a_circle_end(node: Node) -> None:
    write(node.folder, CONFIG, 'imports = ["*.toml", "/etc/containerd/../containerd/config.toml"]\n')
    write(node.folder, "etc/containerd/b.toml", 'imports = ["config.toml", "b.toml"]\n')
    words = ("explain", "reg.io/app", *plain_pod(node.folder), *node.options(), "--check-registry")
    done = run_keyferry(*words, "--registry-timeout", "1", cwd=None, KEYFERRY_HOST_ROOT=str(node.folder))
    assert "Traceback" not in done.stderr
