"""``keyferry demo``: what it tells is true, needs no network, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

from keyferry.cli.demo import REST, STEPS, DemoStep
from support.commands import run_in_process
from support.parts import lacking
from support.screen import WatchedTerminal
from support.terminal import screen, show_in_process

# Secrets of the demo's own plugins; the last one is printed by a plugin that fails.
SECRETS = ("correct horse", "a-token-nobody-sees", "eyJhbGciOiJIUzI1NiJ9", "c2lnbmF0dXJl")
# What each command shows, in the order of the steps.
SHOWN = (
    ("✗ no credential is found", "nearly matches: it has no port", '- "*.harbour.example:443"'),
    (
        "✗ no credential is found: plugin 'pier' fails: login at pier.example failed for token=******** "
        "(exit status 1)",
    ),
    ("'build'", "'shop'"),
    ("'wharf.example'",),
    ("pulled   sha256:", "ferry of pull secret shop/regcred"),
    ("secret shop/regcred", "the image must be pulled"),
    ("ended 1 h", "cannot be reached"),
)
SHOWN_TOO = (
    ("mistaken.yaml:6:5", "KF151", "KF160", "mistaken.yaml:8:3", "KF110"),
    (),
    ("USERNAME", "ferry      ********   eu.harbour.example   provider harbour"),
    (
        "✓ a credential is found: user 'ferry' of provider harbour",
        "pattern '*.harbour.example' matches the image",
        "'eu.harbour.example' ",
        "1. ferry / ********",
    ),
    ("yes: 127.0.0.1:", "can be pulled with ferry of provider harbour", "yes, it may pull"),
    (),
    ("kind: PluginTrace", "accepted: true", "keyferry-placeholder"),
    ("PILOT_ROLE", "KUBERNETES_EXEC_INFO", "https://127.0.0.1:1"),
    ("user pilot: authenticated by exec pilot", "not run (--no-run)"),
)
# In a network of its own with nothing but loopback, which a new one has switched off.
ALONE = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
    fcntl.ioctl(lo, 0x8914, struct.pack("16sh14x", b"lo", 1))
sys.argv = ["keyferry", "demo", "--all"]
from keyferry.cli.main import run
run()
"""
KEYFERRY = ("-m", "keyferry", "demo")
PROMPT = "Enter: next, q: end"


def surroundings(folder: Path) -> dict[str, str]:
    """A home and a temporary folder of its own; nothing of this machine is to be seen."""
    for name in ("tmp", "home", "here"):
        (folder / name).mkdir(exist_ok=True)
    return {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), "KUBERC": "off", "NO_COLOR": "1"}


def demo(
    folder: Path, *words: str, before: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run it where there is no terminal; what it says and what it prints are one text."""
    return subprocess.run(
        [*before, sys.executable, *(words or KEYFERRY)],
        env={**os.environ, **surroundings(folder), "COLUMNS": "500", **env},
        cwd=folder / "here",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )


def commands(text: str) -> list[tuple[str, str]]:
    """The commands that were run, and what each printed."""
    parts = text.split("\n$ keyferry ")[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2].partition("\n=> ")[0]) for part in parts]


def check_story(
    done: subprocess.CompletedProcess[str],
    steps: tuple[DemoStep, ...],
    all_shown: tuple[tuple[str, ...], ...],
) -> None:
    assert done.returncode == 0, done.stdout
    told = commands(done.stdout)
    planned = [typed for step in steps for typed, _ in step.commands]
    assert len(told) == len(planned) == len(all_shown)
    for (typed, printed), plan, shown in zip(told, planned, all_shown, strict=True):
        assert typed.startswith(plan.partition("{host}")[0])
        for part in shown:
            assert part in printed, (typed, printed)
    for number, step in enumerate(steps, 1):
        assert f"\n# {number}/{len(steps)} {step.problem}\n" in done.stdout
        assert f"\n=> {step.moral}\n" in done.stdout
    assert "the demo expected" not in done.stdout
    assert PROMPT not in done.stdout
    for secret in SECRETS:
        assert secret not in done.stdout


def test_six_problems_are_shown_with_their_answers_and_nothing_is_left_behind(tmp_path: Path) -> None:
    """Without pauses, where there is no terminal, and no standard input either."""
    assert len(STEPS) == 6
    done = demo(tmp_path, before=("sh", "-c", '"$@" <&-', "sh"))
    check_story(done, STEPS, SHOWN)
    assert "does not name pier.example/app; this answer assumes that it does" in " ".join(done.stdout.split())
    program = "keyferry" if shutil.which("keyferry") else f"{sys.executable} -m keyferry"
    assert done.stdout.endswith(f"'{program} demo --all' shows the other main commands as well.\n")
    for name in ("tmp", "home", "here"):
        assert list((tmp_path / name).iterdir()) == [], name


def network_of_its_own() -> tuple[str, ...]:
    """The words that run a program in a network of its own, if that can be had here."""
    # Not with a user namespace, in which root's folders are nobody's: a kubeconfig below them is not trusted.
    words = (shutil.which("unshare") or "", "--net")
    can = words[0] and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if can else ()


@pytest.mark.usefixtures("lax_umask")
def test_all_the_other_commands_are_shown_on_request_and_no_network_is_needed(tmp_path: Path) -> None:
    """Nothing but loopback is there, and no name can be resolved. Whatever the umask is, lint has nothing to add."""
    alone = network_of_its_own()
    done = demo(tmp_path, *(("-c", ALONE) if alone else (*KEYFERRY, "--all")), before=alone)
    check_story(done, (*STEPS, *REST), (*SHOWN, *SHOWN_TOO))
    assert " 5 passed" in done.stdout
    assert "keyferry demo --all" not in done.stdout
    if not alone:
        lacking("network-namespace")


def test_on_a_terminal_it_waits_after_each_step(tmp_path: Path) -> None:
    """Enter goes on; its own lines fit the width, and a command on several lines can be pasted."""
    columns = 60
    with WatchedTerminal("demo", columns=columns, **surroundings(tmp_path)) as terminal:
        for number in range(1, len(STEPS)):
            terminal.wait_for(lambda text, number=number: text.count(PROMPT) == number)  # type: ignore[misc] # a default binds it
            assert f"# {number}/6 " in terminal.raw
            assert f"# {number + 1}/6 " not in terminal.raw
            terminal.type("\n")
        shown = terminal.finish()
    assert shown.status == 0, shown.raw
    lines = screen(shown.raw).splitlines()
    own = [line for line in lines if line.startswith(("# ", "$ ", "=> "))]
    assert len([line for line in own if line.startswith("=> ")]) == 6
    assert max(map(len, own)) <= columns
    typed = next(at for at, line in enumerate(lines) if line.startswith("$ keyferry explain"))
    text = " ".join(line.strip() for line in lines[typed : typed + 4]).replace("\\ ", "")
    assert text.startswith(f"$ keyferry {STEPS[0].commands[0][0]}")


@pytest.mark.parametrize(
    ("keys", "status"), [("q\n", 0), ("\x04", 0), ("\x03", 130)], ids=["q", "end of input", "interrupt"]
)
def test_on_a_terminal_it_can_be_ended(tmp_path: Path, keys: str, status: int) -> None:
    """And nothing is left behind, and nothing more is shown."""
    with WatchedTerminal("demo", columns=80, **surroundings(tmp_path)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type(keys)
        shown = terminal.finish()
    assert shown.status == status
    assert "# 2/6" not in shown.raw
    assert "Traceback" not in shown.raw
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_kept_can_be_played_with(tmp_path: Path) -> None:
    path = f"{os.environ['PATH']}{os.pathsep}{os.path.dirname(sys.executable)}"
    done = demo(tmp_path, *KEYFERRY, "--keep", "kept", PATH=path)
    check_story(done, STEPS, SHOWN)
    assert done.stdout.endswith("'keyferry demo --all' shows the other main commands as well.\n")
    kept = tmp_path / "here" / "kept"
    files = "providers.yaml app.yaml web.yaml kubeconfig.yaml bin/harbour layout/index.json node"
    assert [name for name in files.split() if not (kept / name).exists()] == []
    assert list((tmp_path / "tmp").iterdir()) == []
    words = ["get", "eu.harbour.example/app", "--config", "providers.yaml", "--bin-dir", "bin"]
    again = run_in_process(*words, cwd=kept)
    assert again.returncode == 0, again.stderr
    assert f"The files are in {kept}." in done.stdout
    check_story(demo(tmp_path, *KEYFERRY, "--keep", "kept"), STEPS, (*SHOWN[:4], (), *SHOWN[5:]))


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_in_process("demo", "--keep", str(tmp_path / "file"))
    assert done.returncode == 3
    assert "cannot be created: File exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_step_that_goes_wrong_is_said_and_fails_the_demo(tmp_path: Path) -> None:
    """The folder to pull into is a file here; the steps after it are told all the same."""
    (tmp_path / "here" / "kept").mkdir(parents=True)
    (tmp_path / "here" / "kept" / "layout").write_text("in the way")
    done = demo(tmp_path, *KEYFERRY, "--keep", "kept")
    assert done.returncode == 1
    assert "keyferry: this step of the demo expected exit code 0, found 3" in done.stdout
    assert "# 6/6 " in done.stdout


LINKED = "Enter: another link, n: the problems, q: end"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login\?key=[\w-]+")


@pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")
@pytest.mark.parametrize(
    ("key", "goes_on"), [("n\n", True), ("q\n", False), ("\x04", False), ("\x03", False)]
)
def test_the_agents_page_comes_first_on_request_and_the_agent_ends_with_it(key: str, goes_on: bool) -> None:
    # The path of a socket is short.
    with (
        tempfile.TemporaryDirectory(prefix="kf") as folder,
        WatchedTerminal("demo", "--page", columns=80, **surroundings(Path(folder))) as terminal,
    ):
        terminal.wait_for(lambda text: LINKED in text)
        assert "# 1/6 " not in terminal.raw
        link = LINK.search(terminal.raw)
        assert link is not None
        opener = build_opener(HTTPCookieProcessor(), ProxyHandler({}))
        with opener.open(link[0]) as answer:
            page = answer.read().decode()
        terminal.type("\n")
        terminal.wait_for(lambda text: text.count(LINKED) == 2)
        assert len(set(LINK.findall(terminal.raw))) == 2
        terminal.type(key)
        if goes_on:
            terminal.wait_for(lambda text: PROMPT in text)
            terminal.type("q\n")
        shown = terminal.finish()
        assert list(Path(folder, "tmp").iterdir()) == []
    assert ("# 1/6 " in shown.raw) is goes_on
    for provider in ("harbour", "pier", "wharf"):
        assert provider in page
    for words in ("no credential in its last answer", "without a credential for the image"):
        assert words in page
    assert "the demo expected" not in shown.raw
    assert shown.status == 0, shown.raw
    with pytest.raises(URLError, match="refused"):
        opener.open(link[0])


@pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")
def test_an_agent_that_does_not_start_is_an_error_of_the_demo(tmp_path: Path) -> None:
    shown = show_in_process("demo", "--page", columns=500, cwd=tmp_path, KEYFERRY_AGENT_LOG_FORMAT="loud")
    assert shown.status == 3
    assert "the agent does not start: KEYFERRY_AGENT_LOG_FORMAT: found 'loud'" in shown.screen
