"""``keyferry demo``: the story that it tells is true, needs no network, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.cli.demo import _STORY
from support.parts import lacking

# Secrets of the demo's own plugins; the last one is printed by a plugin that fails.
SECRETS = ("correct horse", "a-token-nobody-sees", "eyJhbGciOiJIUzI1NiJ9", "c2lnbmF0dXJl")
# What each step shows, in the order of the story.
SHOWN = (
    ("mistaken.yaml:6:5", "KF151", "KF160", "mistaken.yaml:8:3", "KF110"),
    (),
    ("USERNAME", "ferry      ********   eu.harbour.example   provider harbour"),
    ("✓ a credential is found: user 'ferry' of provider harbour", "the kubelet tries this credential"),
    ("no credentials: the kubelet makes one anonymous attempt", "nearly matches: it has no port"),
    ("plugin 'pier': exited with status 1", "no credentials, since 'pier' failed", "token=********"),
    ("yes: 127.0.0.1:", "can be pulled with ferry of provider harbour", "yes, it may pull"),
    ("pulled   sha256:", "ferry of provider harbour"),
    ("every pod of the node", "the image is used without a pull"),
    ("KP101", "KP105", "KP112", "KP129", "KP301"),
    ("kind: PluginTrace", "accepted: true", "keyferry-placeholder"),
    ("PILOT_ROLE", "KUBERNETES_EXEC_INFO", "https://cluster.harbour.example:6443"),
    ("✓ user pilot: authenticated by exec pilot", "not run (--no-run)"),
)
# In a network of its own with nothing but loopback, which a new one has switched off.
ALONE = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
    fcntl.ioctl(lo, 0x8914, struct.pack("16sh14x", b"lo", 1))
sys.argv = ["keyferry", "demo"]
from keyferry.cli.main import run
run()
"""


def demo(folder: Path, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run it with a home, a temporary folder and a working directory of its own."""
    for name in ("tmp", "home", "here"):
        (folder / name).mkdir(exist_ok=True)
    places = {
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder / "home"),
        "NO_COLOR": "1",
        "COLUMNS": "10000",
    }
    return subprocess.run(
        [*before, sys.executable, *(words or ("-m", "keyferry", "demo"))],
        cwd=folder / "here",
        env={**os.environ, "KUBERC": "off", **places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def steps(stdout: str) -> list[tuple[str, str]]:
    """The commands that were run, and what each printed."""
    parts = stdout.split("\n$ keyferry ")[1:]
    return [
        (part.partition("\n")[0], part.partition("\n")[2].rpartition("\n# ")[0] or part) for part in parts
    ]


def check_story(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    told = steps(done.stdout)
    assert len(told) == len(_STORY) == len(SHOWN)
    for (typed, printed), (_, planned, _), shown in zip(told, _STORY, SHOWN, strict=True):
        assert typed.startswith(planned.partition("{host}")[0])
        for part in shown:
            assert part in printed, typed
    assert "no failures; 5 passed" in done.stderr
    assert "the demo expected" not in done.stderr
    for secret in SECRETS:
        assert secret not in done.stdout + done.stderr


def test_the_whole_story_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    check_story(demo(tmp_path))
    for name in ("tmp", "home", "here"):
        assert list((tmp_path / name).iterdir()) == [], name


@pytest.mark.skipif(sys.platform != "linux", reason="a network of one's own is Linux's")
def test_no_network_is_needed(tmp_path: Path) -> None:
    """Nothing but loopback is there, and no name can be resolved."""
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", "--net", "--map-root-user", "true"]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        lacking("network-namespace")
    check_story(demo(tmp_path, "-c", ALONE, before=tuple(probe[:-1])))


def test_what_is_kept_can_be_played_with(tmp_path: Path) -> None:
    done = demo(tmp_path, "-m", "keyferry", "demo", "--keep", "kept")
    check_story(done)
    kept = tmp_path / "here" / "kept"
    for name in ("providers.yaml", "pod.yaml", "kubeconfig.yaml", "bin/harbour", "layout/index.json", "node"):
        assert (kept / name).exists(), name
    assert list((tmp_path / "tmp").iterdir()) == []
    words = ["get", "eu.harbour.example/app", "--config", "providers.yaml", "--bin-dir", "bin"]
    again = subprocess.run(
        [sys.executable, "-m", "keyferry", *words], cwd=kept, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert f"The files are in {kept}." in done.stdout


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = (sys.executable, "-m", "keyferry", "demo", "--keep", str(tmp_path / "file"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "cannot be created: File exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_step_that_goes_wrong_is_said_and_fails_the_demo(tmp_path: Path) -> None:
    """The folder to pull into is a file here; the steps after it are told all the same."""
    (tmp_path / "here" / "kept").mkdir(parents=True)
    (tmp_path / "here" / "kept" / "layout").write_text("in the way")
    done = demo(tmp_path, "-m", "keyferry", "demo", "--keep", "kept")
    assert done.returncode == 1
    assert "keyferry: this step of the demo expected exit code 0, found 3" in done.stderr
    assert len(steps(done.stdout)) == len(_STORY)
