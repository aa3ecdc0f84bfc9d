"""Arguments and variables that a shell would act on: they arrive as written, byte for byte."""

from __future__ import annotations

import sys

import pytest

from keyferry.errors import PluginStartError
from support.plugins import IMAGE, PLUGIN, REGISTRY, Node, print_answer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

# Each would leave a file named "canary" in the node's folder, or change, if anything interpreted it.
HOSTILE = {
    "a second command": "; touch $HERE/canary",
    "a second command after and": "&& touch $HERE/canary",
    "a command in the background": "& touch $HERE/canary &",
    "a pipe": "| touch $HERE/canary",
    "a substitution": "$(touch $HERE/canary)",
    "backticks": "`touch $HERE/canary`",
    "a field separator": "a$IFS;touch${IFS}$HERE/canary",
    "a variable": "$HOME ${HOME} $$ $0 $@",
    "a variable of another system": "%PATH% %VAR% !VAR!",
    "carets": "^& ^^ ^|",
    "single quotes": "it's '' '",
    "double quotes": 'say "x" "',
    "a quote that closes and reopens": "';touch $HERE/canary;'",
    "backslashes": "\\ \\\\ \\n \\' \\\" end\\",
    "a newline": "first\ntouch $HERE/canary",
    "a carriage return": "first\r\nsecond",
    "a redirection": "> $HERE/canary",
    "a glob": "/* ~ [a-z] {a,b} ?",
    "a comment": "# the rest",
    "an option": "--help",
    "an assignment": "LD_PRELOAD=/evil.so",
    "nothing": "",
    "spaces": "  a  b  ",
    "other letters": "\u00e4\u4e2d\U0001f511",
    "control characters": "\x01\x1b[2J\x7f",
}

REPORT = f"""
cat /proc/$$/cmdline >"$HERE/cmdline"
cat /proc/$$/environ >"$HERE/environ"
{print_answer()}
"""


def hostile_text(node: Node, text: str) -> str:
    """A hostile text that aims at the node's own folder."""
    return text.replace("$HERE", str(node.root))


def arguments(node: Node) -> list[bytes]:
    """The arguments that reached the plugin; in front of them stand the shell and the script."""
    return node.file("cmdline").read_bytes().split(b"\0")[2:-1]


def variables(node: Node) -> list[bytes]:
    """The variables that reached the plugin."""
    return node.file("environ").read_bytes().split(b"\0")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_argument_arrives_byte_for_byte(node: Node, text: str) -> None:
    """An argument is one argument, unchanged, and nothing in it is run."""
    text = hostile_text(node, text)
    node.shell(REPORT)
    node.provider(args=["before", text, "after"])
    node.load().lookup(IMAGE).raise_for_failures()
    assert arguments(node) == [b"before", text.encode(), b"after"]
    assert not node.file("canary").exists()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_variable_arrives_byte_for_byte(node: Node, text: str) -> None:
    """A variable's value is unchanged, and nothing in it is run."""
    text = hostile_text(node, text)
    node.shell(REPORT)
    node.provider(env=[{"name": "KF_HOSTILE", "value": text}])
    node.load().lookup(IMAGE).raise_for_failures()
    assert b"KF_HOSTILE=" + text.encode() in variables(node)
    assert not node.file("canary").exists()


def test_all_arguments_arrive_in_order(node: Node) -> None:
    """Many hostile arguments do not run together, nor are equal ones dropped."""
    texts = [hostile_text(node, text) for text in [*HOSTILE.values(), *HOSTILE.values()]]
    node.shell(REPORT)
    node.provider(args=texts)
    node.load().lookup(IMAGE).raise_for_failures()
    assert arguments(node) == [text.encode() for text in texts]


def test_a_plugin_of_a_hostile_name_is_run_without_a_shell(node: Node) -> None:
    """A name full of a shell's characters is the path that is executed."""
    name = "a;touch${IFS}canary`id`$(id)'\"&|"
    node.shell(REPORT, name)
    node.provider(name)
    node.load().lookup(IMAGE).raise_for_failures()
    path = node.bin_dir / name
    assert node.file("cmdline").read_bytes().split(b"\0")[:-1] == [b"/bin/sh", bytes(path)]


def test_an_image_reaches_a_plugin_by_standard_input_alone(node: Node) -> None:
    """What is asked stands in no argument and no variable, where other users of the machine could read it."""
    image = f"{REGISTRY}/very/private"
    node.shell(f'cat >"$HERE/request"\n{REPORT}')
    node.load().lookup(image).raise_for_failures()
    assert image.encode() in node.file("request").read_bytes()
    assert image.encode() not in node.file("cmdline").read_bytes()
    assert image.encode() not in node.file("environ").read_bytes()


# In Go's words: os/exec looks at the environment, the system call at the arguments.
UNPASSABLE: dict[str, tuple[dict[str, object], str]] = {
    "a NUL in an argument": ({"args": ["before", "a\0b"]}, "fork/exec $PATH: invalid argument"),
    "a NUL in a variable": (
        {"env": [{"name": "KF_NUL", "value": "a\0b"}]},
        "exec: environment variable contains NUL",
    ),
    "a NUL in a variable's name": (
        {"env": [{"name": "KF\0NUL", "value": "x"}]},
        "exec: environment variable contains NUL",
    ),
}


@pytest.mark.parametrize(("fields", "reason"), UNPASSABLE.values(), ids=UNPASSABLE)
def test_a_nul_is_a_start_error(node: Node, fields: dict[str, object], reason: str) -> None:
    """What cannot be passed on is not cut off: the plugin does not start, as in the kubelet."""
    path = node.shell(REPORT)
    node.provider(PLUGIN, **fields)
    (failure,) = node.load().lookup(IMAGE).failures
    assert isinstance(failure.error, PluginStartError)
    assert failure.kubernetes_text.endswith(f" for image {IMAGE}: {reason.replace('$PATH', str(path))}: ")
    assert not node.file("cmdline").exists()


def test_an_argument_too_long_for_the_system_is_a_start_error(node: Node) -> None:
    """An argument beyond the system's bound is an error in the system's words, and not quoted."""
    node.shell(REPORT)
    node.provider(args=["x" * 3_000_000])
    (failure,) = node.load().lookup(IMAGE).failures
    assert isinstance(failure.error, PluginStartError)
    assert "argument list too long" in str(failure.error)
    assert len(str(failure.error)) < 1_000
    assert failure.provider == PLUGIN
