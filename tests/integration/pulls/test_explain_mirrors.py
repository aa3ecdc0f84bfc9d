"""What explain says of mirrors: where the runtime goes, who gets the credential, and what is looked up in vain."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.commands import Node, plain_pod, run_keyferry
from support.kubelets import Processes
from support.mirrors import CERTS, CONFIG, MIRROR, REGISTRIES, write

CRIO = '[[registry]]\nlocation = "reg.io"\n{more}[[registry.mirror]]\nlocation = "mirror.example/cache"\n'


def traps_of(folder: Path, *words: str, root: str = "") -> dict[str, dict[str, object]]:
    """The traps about mirrors by their kind; *root* is that of the machine."""
    env = {"KEYFERRY_HOST_ROOT": root} if root else {}
    words = ("explain", "reg.io/app", *plain_pod(folder), "-o", "json", *words)
    done = run_keyferry(*words, cwd=None, **env)
    assert done.returncode == 0, done.stderr
    traps = json.loads(done.stdout)["traps"]
    return {trap["outcome"]: trap for trap in traps if trap["outcome"].startswith("mirror")}


@pytest.fixture
def two(tmp_path: Path) -> Node:
    """A node with a plugin for the registry and one for its mirror."""
    return Node(tmp_path).add("own", ["reg.io"]).add("other", ["mirror.example"])


def test_containerd_offers_the_registrys_credential_to_the_mirror(two: Node) -> None:
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    traps = traps_of(two.folder, *two.options(), "--hosts-dir", str(two.folder / CERTS))
    text = str(traps["mirror"]["text"])
    assert text.startswith(
        "containerd asks https://mirror.example, then https://reg.io (the registry itself) ("
    )
    assert "containerd offers them to each of these hosts that asks for one" in text
    facts = traps["mirror"]["facts"]
    assert isinstance(facts, dict)
    assert [each["credential"] for each in facts["endpoints"]] == ["offered", "offered"]
    assert "covers the mirror mirror.example, but" in str(traps["mirror-pattern"]["text"])
    assert not (two.bin_dir / "other.runs").exists()


def test_a_pattern_for_the_mirror_alone_is_the_likely_cause(tmp_path: Path) -> None:
    """The pattern for the image's own host is the cure."""
    node = Node(tmp_path).add("other", ["mirror.example"])
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    options = [*node.options(), "--hosts-dir", str(tmp_path / CERTS), *plain_pod(tmp_path)]
    document = json.loads(run_keyferry("explain", "reg.io/team/app", *options, "-o", "json").stdout)
    assert document["cause"].startswith(
        "pattern 'mirror.example' of 'other' covers the mirror mirror.example"
    )
    (cure,) = document["cure"]
    assert "matchImages of provider 'other'" in cure["text"]
    assert cure["lines"] == ['- "reg.io"']
    text = run_keyferry("explain", "reg.io/team/app", *options).stdout
    assert text.count("covers the mirror") == 1


def test_cri_o_keeps_it_from_the_mirror(two: Node) -> None:
    conf = write(two.folder, "registries.conf", CRIO.format(more=""))
    traps = traps_of(two.folder, *two.options(), "--registries-conf", conf)
    assert "CRI-O does not send them to another host" in str(traps["mirror"]["text"])
    assert set(traps) == {"mirror", "mirror-pattern"}


def test_a_mirror_without_tls_may_give_the_credential_away(two: Node) -> None:
    write(two.folder, CERTS / "_default" / "hosts.toml", '[host."http://10.0.0.1:5000"]\n')
    traps = traps_of(two.folder, *two.options(), "--hosts-dir", str(two.folder / CERTS))
    assert "it gets that of reg.io" in str(traps["mirror-insecure"]["text"])


@pytest.mark.parametrize(
    ("text", "trap", "said"),
    [
        (CRIO.format(more="blocked = true\n"), "mirror-blocked", "CRI-O does not pull it: "),
        ("[", "mirror-file", "may name a mirror, but it is not TOML"),
    ],
)
def test_what_stops_the_runtime_or_us_is_said(two: Node, text: str, trap: str, said: str) -> None:
    conf = write(two.folder, "registries.conf", text)
    traps = traps_of(two.folder, *two.options(), "--registries-conf", conf)
    assert set(traps) == {trap}
    assert said in str(traps[trap]["text"])


def test_without_a_credential_the_mirror_gets_none_either(tmp_path: Path) -> None:
    node = Node(tmp_path).add("own", ["else.io"])
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    words = ("explain", "reg.io/app", *plain_pod(tmp_path), *node.options())
    done = run_keyferry(*words, "--hosts-dir", str(tmp_path / CERTS))
    assert "so the mirror gets none either" in " ".join(done.stdout.split())


@pytest.mark.parametrize(("pattern", "said"), [("else.io", True), ("reg.io", False)])
def test_a_login_of_the_runtimes_own_is_used_where_the_kubelet_has_none(
    tmp_path: Path, pattern: str, said: bool
) -> None:
    node = Node(tmp_path).add("own", [pattern])
    cri = '[plugins."io.containerd.grpc.v1.cri".registry.configs."reg.io".auth]'
    write(tmp_path, CONFIG, f'{cri}\nusername = "u"\npassword = "pass-word"\n')
    words = ("explain", "reg.io/app", *plain_pod(tmp_path), *node.options(), "--check-registry")
    done = run_keyferry(*words, "--registry-timeout", "1", cwd=None, KEYFERRY_HOST_ROOT=str(tmp_path))
    text = "containerd then uses the login of its own for reg.io"
    assert (text in " ".join(done.stdout.split())) is said
    assert "pass-word" not in done.stdout + done.stderr


def test_this_machines_files_do_not_count_for_a_config_from_elsewhere(two: Node) -> None:
    """Without a kubelet here, nothing tells that this machine is the node."""
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    assert traps_of(two.folder, *two.options(), root=str(two.folder)) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")
@pytest.mark.parametrize(
    ("endpoint", "runtime"), [("containerd/containerd", "containerd"), ("crio/crio", "CRI-O")]
)
def test_the_runtime_of_the_running_kubelet_decides_which_files_count(
    two: Node, processes: Processes, endpoint: str, runtime: str
) -> None:
    write(two.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    write(two.folder, REGISTRIES, CRIO.format(more=""))
    flags = [
        f"--image-credential-provider-config={two.config}",
        f"--image-credential-provider-bin-dir={two.bin_dir}",
        f"--container-runtime-endpoint=unix:///run/{endpoint}.sock",
    ]
    with processes.kubelet(*flags, env={"PATH": "/usr/bin:/bin"}):
        traps = traps_of(two.folder, root=str(two.folder))
    facts = traps["mirror"]["facts"]
    assert isinstance(facts, dict)
    assert facts["runtime"] == runtime
