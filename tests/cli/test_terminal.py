"""Commands on a terminal, as a person reads them: verdict first, folded to the width, with colours."""

from __future__ import annotations

import io
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import pytest

from keyferry.cli.waiting import Waiting
from support.commands import Node, all_commands, plain_pod, run_in_process
from support.fake_cloud import Reply, serving
from support.images import build, push
from support.plugins import PATIENCE_SECONDS, wait_until
from support.registry import Registry, basic, running
from support.terminal import Shown, Terminal, keyferry_on_terminal, screen, show_in_process

# The narrowest terminal, and the usual one.
WIDTHS = (38, 80)
USER, PASSWORD = "alice", "kf-marked-word"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/app", "v1", build(b"hello"), basic(USER, PASSWORD))
        yield server


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with providers that match nothing, nearly match, fail, answer nonsense, and work."""
    good = json.dumps({"good.example": {"username": USER, "password": PASSWORD}})
    return (
        Node(tmp_path)
        .add("port", ["registry.example"])
        .add("path", ["registry.example:5000/other", "quay.io"])
        .add("far", ["*.gcr.io"])
        .add("further", ["*.dkr.ecr.*.amazonaws.com"])
        .add("works", ["good.example"], good)
        .add("fails", ["fails.example"], before="echo 'AccessDenied: no such account' >&2; exit 3")
        .add("garbage", ["garbage.example"], before="echo hello; exit 0")
        .add("stray", ["stray.example"], good)
        .add("empty", ["empty.example"], "{}")
    )


def pod_with_secret(folder: Path, *, host: str = "quay.io", password: str = PASSWORD) -> list[str]:
    """Return the options for a pod with a pull secret."""
    auths = {"auths": {host: {"username": USER, "password": password}}}
    data = {".dockerconfigjson": b64encode(json.dumps(auths).encode()).decode()}
    metadata = {"name": "regcred", "namespace": "shop"}
    secret = {"kind": "Secret", "metadata": metadata, "type": "kubernetes.io/dockerconfigjson", "data": data}
    spec = {"serviceAccountName": "puller", "containers": [], "imagePullSecrets": [{"name": "regcred"}]}
    pod = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec}
    path = folder / "pod-and-secret.json"
    path.write_text(json.dumps({"kind": "List", "items": [pod, secret]}))
    return ["-f", str(path)]


def check_lines(shown: Shown, width: int) -> list[str]:
    """Return the lines, of which none is too long but for a single word or a line to paste."""
    lines = shown.screen.split("\n")
    for line in lines:
        is_pasted = line.startswith(("    keyferry ", "    kubectl ", "    saved=$(mktemp ", "    - "))
        is_one_word = len(line.split()) <= 2
        assert len(line) <= width or is_pasted or is_one_word, (width, line)
        assert line == line.rstrip()
    return lines


CASES = {
    "nearly": (
        "registry.example:5000/team/app:v1",
        "✗ no credential is found: pattern 'registry.example' of provider 'port' nearly matches: it has no port,",
    ),
    "nothing": (
        "nothing.test/app",
        "✗ no credential is found: nothing that is configured is for nothing.test",
    ),
    "found": ("good.example/app", "✓ a credential is found: user 'alice'"),
    "fails": (
        "fails.example/app",
        "✗ no credential is found: plugin 'fails' fails: AccessDenied: no such account (exit status 3)",
    ),
    "garbage": (
        "garbage.example/app",
        "✗ no credential is found: plugin 'garbage': its standard output is not one JSON object",
    ),
    "stray": (
        "stray.example/app",
        "✗ no credential is found: provider 'stray' returned credentials for 'good.example' only,",
    ),
    "empty": (
        "empty.example/app",
        "✗ no credential is found: the plugin of provider 'empty' returned no credentials",
    ),
    "hub": ("busybox", "✗ no credential is found: nothing that is configured is for docker.io"),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_first_and_every_line_fits(case: str, width: int, node: Node, tmp_path: Path) -> None:
    image, first = CASES[case]
    words = ("explain", image, *node.options(), *plain_pod(tmp_path))
    shown = show_in_process(*words, columns=width)
    lines = check_lines(shown, width)
    head = " ".join(line.strip() for line in lines[: lines.index("")])
    assert head.startswith(first)
    assert head.endswith(f" image {image}")
    assert lines[-3:] == ["", "-o wide shows how it was found", ""]
    assert PASSWORD not in shown.raw
    whole = show_in_process(*words, "-o", "wide", columns=width)
    check_lines(whole, width)
    assert "PROVIDERS" in whole.screen.split("\n")


def test_folding_changes_no_word(node: Node, tmp_path: Path) -> None:
    words = ("explain", "registry.example:5000/team/app:v1", *node.options(), *plain_pod(tmp_path))
    texts = {show_in_process(*words, columns=width).screen for width in (38, 60, 80, 120)}
    assert len(texts) == 4
    assert len({" ".join(text.split()) for text in texts}) == 1


def test_other_hosts_are_one_line_and_no_rule_is_named_for_them(node: Node, tmp_path: Path) -> None:
    words = ("explain", "registry.example:5000/team/app", *node.options(), *pod_with_secret(tmp_path))
    lines = check_lines(show_in_process(*words, columns=80), 80)
    cause, cure, anonymous, others, secret = (line for line in lines if line.startswith(("✗", "→", "!")))
    assert cause.startswith("✗ no credential is found: pattern 'registry.example' of provider 'port' nearly")
    assert cure.startswith("→ add this to matchImages of provider 'port'")
    assert anonymous.startswith("! without a credential the kubelet pulls anonymously")
    assert others == "! 8 providers are for other images"
    assert secret == "! pull secret shop/regcred is for other images: 'quay.io'"
    assert "gcr.io" not in "".join(lines)


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["--color=always"], {"NO_COLOR": "1"}, True),
        (["--color", "auto"], {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_as_the_option_and_the_variables_say(
    options: list[str], env: dict[str, str], expected: bool, node: Node
) -> None:
    shown = show_in_process(
        "explain", "good.example/app", *options, *node.options(), columns=80, cwd=None, **env
    )
    assert ("\x1b[" in shown.raw) is expected


def test_a_pipe_has_colours_only_if_it_is_told_to(node: Node) -> None:
    words = ("explain", "good.example/app", *node.options())
    assert "\x1b[" not in run_in_process(*words, NO_COLOR="").stdout
    assert "\x1b[32;1m" in run_in_process(*words, "--color", "always").stdout
    assert "\x1b[32;1m" in run_in_process(*words, NO_COLOR="", FORCE_COLOR="1", TERM="dumb").stdout
    assert "\x1b[" not in run_in_process(*words, NO_COLOR="1", FORCE_COLOR="1").stdout


def test_marks_are_ascii_where_the_locale_has_no_others(node: Node, tmp_path: Path) -> None:
    words = ("explain", "nothing.test/app", *node.options(), *plain_pod(tmp_path))
    shown = keyferry_on_terminal(*words, PYTHONIOENCODING="ascii")
    assert shown.screen.startswith("x no credential is found")
    assert shown.raw.isascii()


def on_registry(registry: Registry, folder: Path, tag: str, password: str, width: int) -> list[str]:
    options = [*Node(folder).add("own", ["other.io"]).options(), "--hosts-dir", str(folder)]
    pod = pod_with_secret(folder, host=registry.host, password=password)
    words = ("explain", f"{registry.host}/team/app:{tag}", "--check-registry", *options, *pod)
    return check_lines(show_in_process(*words, columns=width), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("tag", "password", "verdict", "cure"),
    [
        ("v1", PASSWORD, "✓ yes: ", ""),
        ("v1", "wrong", "✗ {host} refuses ", "kubectl create secret docker-registry regcred -n shop"),
        ("none", PASSWORD, "✗ no: the registry has no ", "check the name and the tag"),
    ],
    ids=["yes", "refused", "not found"],
)
def test_the_registrys_word_is_the_verdict(
    registry: Registry, tmp_path: Path, tag: str, password: str, verdict: str, cure: str, width: int
) -> None:
    lines = on_registry(registry, tmp_path, tag, password, width)
    head = " ".join(line.strip() for line in lines[: lines.index("")])
    assert head.startswith(verdict.format(host=registry.host))
    assert cure in " ".join(line.strip() for line in lines)
    assert '--docker-password="${REGISTRY_PASSWORD:?}"' in "".join(lines) or password != "wrong"
    assert not [line for line in lines if PASSWORD in line or ("wrong " in line and "--docker" in line)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_registry_that_cannot_be_reached_is_no_no(tmp_path: Path, width: int) -> None:
    own = json.dumps({"127.0.0.1:1": {"username": USER, "password": PASSWORD}})
    options = [*Node(tmp_path).add("own", ["127.0.0.1:1"], own).options(), "--hosts-dir", str(tmp_path)]
    words = ("explain", "127.0.0.1:1/team/app", "--check-registry", *options, *plain_pod(tmp_path))
    shown = show_in_process(*words, columns=width)
    assert shown.status == 6
    text = " ".join(" ".join(check_lines(shown, width)).split())
    assert text.startswith("? cannot tell whether 127.0.0.1:1/team/app can be pulled: ")
    assert text.count("cannot be reached") == 1


def test_what_is_waited_for_is_shown_after_a_second_and_taken_away(tmp_path: Path) -> None:
    node = Node(tmp_path).add("slow-plugin", ["reg.io"], before='until [ -e "$0.go" ]; do sleep 0.05; done')
    command = (sys.executable, "-m", "keyferry", "explain", "reg.io/app", *node.options())
    with Terminal(command, columns=60) as terminal:
        assert "running slow-plugin, 1 s of 60" in terminal.read_until("s of 60")
        (node.bin_dir / "slow-plugin.go").touch()
        shown = terminal.finish()
    assert shown.status == 0
    assert "running slow-plugin" not in shown.screen
    assert shown.screen.startswith("✓ a credential is found")


def test_a_slow_registry_is_named_while_it_is_asked(tmp_path: Path) -> None:
    is_seen = Event()

    def slow(_: object) -> Reply:
        is_seen.wait(PATIENCE_SECONDS)
        return Reply(status=401)

    with serving(slow) as server:
        host = f"127.0.0.1:{server.port}"
        options = [*Node(tmp_path).add("own", ["other.io"]).options(), "--hosts-dir", str(tmp_path)]
        command = (sys.executable, "-m", "keyferry", "can-pull", f"{host}/app", *options)
        with Terminal((*command, *plain_pod(tmp_path))) as terminal:
            assert f"asking {host}, 1 s of 60" in terminal.read_until("s of 60")
            is_seen.set()
            shown = terminal.finish()
    assert "asking" not in shown.screen


NARROW = 60
# Lines of examples, and usage lines, whose parts argparse does not break.
PASTED = (
    "  keyferry ",
    "  sudo keyferry ",
    "  #!",
    "  exec ",
    "  KEYFERRY_",
    "  kubectl ",
    "  source ",
    "  crictl ",
    "  eval ",
)


def check_narrow_lines(text: str, *, but: tuple[str, ...] = ()) -> None:
    for line in text.split("\n"):
        is_word = len(line.split()) <= 1
        assert len(line) <= NARROW or is_word or line.startswith(but), line


@pytest.mark.parametrize(
    "words",
    [(), *(words for words in all_commands() if len(words) == 1), ("plugin", "try"), ("kube", "contexts")],
    ids=" ".join,
)
def test_help_is_folded_to_the_terminal(words: tuple[str, ...]) -> None:
    narrow = show_in_process(*words, "--help", columns=NARROW).screen
    check_narrow_lines(narrow, but=PASTED)
    wide = run_in_process(*words, "--help").stdout
    # At the usual width, a word may be broken after a hyphen.
    whole = re.sub(r"-\n +(?=in\b)", "-", wide)
    assert sorted(narrow.split()) == sorted(whole.split())


def test_tables_become_paragraphs(tmp_path: Path) -> None:
    host = "a-long-name-of-a-registry.example"
    auth = f'{{"{host}": {{"username": "a-long-user-name", "password": "x"}}}}'
    node = Node(tmp_path).add("a-long-plugin-name", [host], auth)
    words = (f"{host}/app", *node.options(), *plain_pod(tmp_path))
    shown = show_in_process("get", *words, columns=NARROW).screen
    check_narrow_lines(shown)
    assert "  SOURCE    provider a-long-plugin-name" in shown.split("\n")
    wide = show_in_process("get", *words, columns=200).screen
    assert wide.split("\n")[0].split() == ["USERNAME", "PASSWORD", "KEY", "SOURCE"]
    (tmp_path / "no-hosts").mkdir()
    options = ("--hosts-dir", str(tmp_path / "no-hosts"), "--registry-timeout", "1")
    asked = show_in_process("can-pull", *words, *options, columns=NARROW)
    assert "  REGISTRY RESPONSE" in asked.screen


class Looked(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Always."""
        return True


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_stays_of_what_is_waited_for(fails: bool) -> None:
    """Also after an interrupt; what somebody else has named fits the line, and cannot harm the terminal."""
    stream = Looked()
    with (
        pytest.raises(KeyboardInterrupt) if fails else nullcontext(),
        Waiting("running a\x1b[2J" + "b" * 200, 60, stream=stream, tick_seconds=0.01),
    ):
        wait_until(lambda: stream.getvalue().count("\r") > 2, "the line")
        if fails:
            raise KeyboardInterrupt
    shown = stream.getvalue()
    assert "\rrunning a\ufffd[2Jbbb" in shown
    assert "\n" not in shown
    assert max(map(len, shown.split("\r"))) < 80
    assert screen(shown) == ""


def test_nothing_is_said_meanwhile_where_nobody_looks() -> None:
    """While a terminal gets its line."""
    stream, looked = io.StringIO(), Looked()
    with (
        Waiting("running a", stream=stream, tick_seconds=0.001),
        Waiting("running a", stream=looked, tick_seconds=0.01),
    ):
        wait_until(lambda: looked.getvalue() != "", "the line")
    assert stream.getvalue() == ""
