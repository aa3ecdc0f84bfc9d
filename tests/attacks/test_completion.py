"""Completion puts names of others into the command line that a user is about to run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from support.api_server import Seen
from support.certificates import Authority
from support.commands import run_in_process
from support.kube import TOKEN, Kube, credential
from support.kubernetes_api import KubernetesApi

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a b",
    "a\n:0",
    "a\tb",
    "a'b",
    'a"b',
    "a\\b",
    "a|b",
    "a&b",
    "a>b",
    "*",
    "-rf",
    "a\x1b[2J",
    "a\u202eb",
    "",
    "x" * 100_000,
)


def offered(*words: str, kubeconfig: Path) -> list[str]:
    """Return all that a shell gets, line by line."""
    done = run_in_process("__complete", *words, KUBECONFIG=str(kubeconfig), KUBERC="off")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")


class HostileApi(KubernetesApi):
    """A server whose lists have hostile names, and never end."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority)
        self.pages = count(1)

    def respond(self, seen: Seen) -> tuple[int, bytes]:
        """Give one more page, whatever is asked."""
        names = (f"page-{next(self.pages)}", *HOSTILE, None, 7, {"a": "b"})
        items = [{"metadata": {"name": name}} for name in names]
        document = {"items": [*items, "no object", {"metadata": []}], "metadata": {"continue": "more"}}
        return 200, json.dumps(document).encode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def api(authority: Authority) -> Iterator[HostileApi]:
    with HostileApi(authority) as running:
        yield running


@pytest.fixture
def kube(tmp_path: Path, api: HostileApi, authority: Authority) -> Kube:
    made = Kube(tmp_path)
    made.write(api.url, ca=authority.pem)
    made.answer(credential(TOKEN))
    return made


@pytest.mark.parametrize("words", [("explain", "pod/"), ("explain", "-n", "")])
def test_names_from_a_hostile_server_are_left_out_and_its_pages_end(
    kube: Kube, api: HostileApi, words: tuple[str, ...]
) -> None:
    *names, directive, end = offered(*words, kubeconfig=kube.path)
    assert (directive, end) == (":4", "")
    assert all(name.removeprefix("pod/").startswith("page-") for name in names)
    assert 0 < len(names) == len(api.seen) <= 20


def test_names_of_a_hostile_kubeconfig_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "config"
    entry = {"cluster": "c", "user": "u"}
    contexts = [{"name": name, "context": entry} for name in ("good", *HOSTILE) if name]
    path.write_text(json.dumps({"contexts": contexts}))
    path.chmod(0o600)
    for words in (("--context", ""), ("explain", "--context", "")):
        assert offered(*words, kubeconfig=path) == ["good", ":4", ""]


def test_no_plugin_of_a_kubeconfig_of_others_runs(kube: Kube, api: HostileApi) -> None:
    kube.path.chmod(0o666)
    assert offered("explain", "pod/", kubeconfig=kube.path) == [":4", ""]
    assert (kube.runs(), api.seen) == (0, [])


def test_no_token_is_offered(kube: Kube) -> None:
    """A candidate is shown, and what is typed stays in the shell's history."""
    secret = "t0ken-of-somebody"
    kube.write("https://127.0.0.1:9", user={"token": secret})
    for words in (("--token", ""), ("explain", "--user", ""), ("--user", ""), ("explain", "pod/")):
        assert secret not in "".join(offered(*words, kubeconfig=kube.path))
