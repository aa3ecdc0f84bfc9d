"""Completion, in the shells themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.certificates import Authority
from support.commands import all_commands, run_in_process
from support.kube import TOKEN, Kube, kube_in
from support.kube_commands import exec_section
from support.kubernetes_api import KubernetesApi, pod
from support.parts import need
from support.plugins import write_executable
from support.terminal import keyferry_on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def script(shell: str, folder: Path) -> Path:
    done = run_in_process("completion", shell)
    assert done.returncode == 0
    path = folder / f"keyferry.{shell}"
    path.write_text(done.stdout)
    return path


def with_program(folder: Path) -> Path:
    """Write the program that the scripts ask; return its folder."""
    bin_dir = folder / "bin"
    bin_dir.mkdir(exist_ok=True)
    write_executable(bin_dir / "keyferry", f'#!/bin/sh\nexec {sys.executable} -m keyferry "$@"\n')
    return bin_dir


def with_contexts(folder: Path, *names: str) -> Path:
    """Write a kubeconfig with contexts."""
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names]
    path = folder / "contexts.json"
    path.write_text(json.dumps({"contexts": contexts}))
    return path


def environment(folder: Path, kubeconfig: Path | None = None) -> dict[str, str]:
    path = f"{with_program(folder)}:{os.environ['PATH']}"
    config = kubeconfig or with_contexts(folder, "prod", "test")
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return {**os.environ, **home, "PATH": path, "KUBECONFIG": str(config), "KUBERC": "off"}


def ask(*words: str, kubeconfig: Path | None = None, **env: str) -> tuple[dict[str, str], int]:
    """Return what a script gets: the candidates with their descriptions, and what it does with them."""
    config = {} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}
    done = run_in_process("__complete", *words, cwd=None, **{"KUBERC": "off", **config, **env})
    assert (done.returncode, done.stderr) == (0, "")
    *offers, directive = done.stdout.splitlines()
    pairs = (offer.partition("\t") for offer in offers)
    return {name: text for name, _, text in pairs}, int(directive.removeprefix(":"))


FILES, NO_FILES, NO_SPACE = 0, 4, 6


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(("",), {name for name, *more in all_commands() if not more}, id="commands"),
        pytest.param(("ex",), {"explain"}, id="a command"),
        pytest.param(("--vers",), {"--version"}, id="an option of no command"),
        pytest.param(
            ("get", "x", "--re"), {"--reveal", "--request-timeout", "--request-token"}, id="options"
        ),
        pytest.param(
            ("get", "x", "-o", ""), {"table", "wide", "json", "yaml", "dockerconfig", "env"}, id="formats"
        ),
        pytest.param(("get", "x", "--output", "j"), {"json"}, id="a format"),
        pytest.param(("get", "x", "--output=j"), {"--output=json"}, id="a format in the same word"),
        pytest.param(("completion", "z"), {"zsh"}, id="shells"),
        pytest.param(("kube", "w"), {"whoami"}, id="subcommands"),
        pytest.param(("kube", "raw", "--kubec"), {"--kubeconfig"}, id="an option of a subcommand"),
        pytest.param(("records", "list", "--polic"), set(), id="not the option of another subcommand"),
        pytest.param(("records", "who", "x", "--policy", "Alw"), {"AlwaysVerify"}, id="a policy"),
        pytest.param(("plugin", "install", "ec"), {"ecr"}, id="a plugin"),
        pytest.param(("lint", "--list", "KF151"), {"KF151"}, id="a code of lint"),
        pytest.param(("plugin", "test", "x", "--only", "KP33"), {"KP330", "KP331", "KP332"}, id="a check"),
        pytest.param(("plugin", "test", "--list", "KP101"), {"KP101"}, id="a check to explain"),
        pytest.param(("explain", "po"), {"pod/"}, id="a kind"),
        pytest.param(("can-pull", "deploy"), {"deployment/"}, id="a kind of workload"),
        pytest.param(("explain", "sts"), {"sts/"}, id="a kind by its short name"),
        pytest.param(("--context", "p", "ex"), {"explain"}, id="a command after a flag"),
        pytest.param(("kube", "--as", "p", "who"), {"whoami"}, id="a subcommand after a flag"),
        pytest.param(("--as=p", "kube", "raw", "--tr"), {"--trust"}, id="an option after a flag"),
        pytest.param(("no-such-command", ""), set(), id="no such command"),
        pytest.param(("lint", "--no-such-option="), set(), id="no such option"),
    ],
)
def test_completes(line: tuple[str, ...], expected: set[str]) -> None:
    assert set(ask(*line)[0]) == expected


@pytest.mark.parametrize(
    ("line", "directive"),
    [
        pytest.param(("lint", "prov"), FILES, id="a file"),
        pytest.param(("get", "x", "--config", ""), FILES, id="the file of an option"),
        pytest.param(("plugin", "test", "x", "--", ""), FILES, id="the words of a plugin"),
        pytest.param(("explain", "po"), NO_SPACE, id="a kind, which a name follows"),
        pytest.param(("kube", "raw", "/version", ""), NO_FILES, id="nothing more"),
        pytest.param(("",), NO_FILES, id="a command"),
    ],
)
def test_files_stand_where_a_file_may_stand(line: tuple[str, ...], directive: int) -> None:
    assert ask(*line)[1] == directive


def test_everything_is_described() -> None:
    assert ask("ex")[0]["explain"].startswith("explain why the kubelet has")
    assert ask("plugin", "tr")[0]["trace"].startswith("record one request")
    described = ask("kube", "explain", "--no-r")[0]
    assert described == {"--no-run": "do not run the plugin and do not contact the server"}


@pytest.mark.parametrize(
    "line", [("kube", "raw", "--context"), ("plugin", "try", "x", "--context"), ("--context",)]
)
def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path, line: tuple[str, ...]) -> None:
    config = with_contexts(tmp_path, "prod", "test")
    assert set(ask(*line, "", kubeconfig=config)[0]) == {"prod", "test"}
    assert set(ask(*line, "p", kubeconfig=config)[0]) == {"prod"}
    other = ("--kubeconfig", str(with_contexts(tmp_path, "other")))
    assert set(ask(*other, *line, "")[0]) == {"other"}


# Names of the cluster.


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A cluster whose user may list pods, workloads and namespaces."""
    with KubernetesApi(authority) as running:
        running.add_user(TOKEN)
        running.permit(TOKEN, "list", "pods deployments namespaces nodes")
        running.add(*(pod(name, "shop") for name in ("web-1", "web-2", "db-0")), pod("other", "default"))
        running.add(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
        )
        for name in ("default", "shop"):
            running.add({"kind": "Namespace", "metadata": {"name": name}})
        for name in ("node-1", "node-2"):
            running.add({"kind": "Node", "metadata": {"name": name}})
        yield running


@pytest.fixture
def kube(tmp_path: Path, api: KubernetesApi, authority: Authority) -> Kube:
    return kube_in(tmp_path / "kube", api.url, authority.pem)


def test_pods_and_workloads_complete_in_their_namespace(kube: Kube, api: KubernetesApi) -> None:
    config = kube.path
    assert ask("explain", "-n", "shop", "pod/w", kubeconfig=config) == ({"pod/web-1": "", "pod/web-2": ""}, 4)
    assert set(ask("can-pull", "-nshop", "deploy/", kubeconfig=config)[0]) == {"deploy/web"}
    assert set(ask("--namespace=shop", "explain", "po/d", kubeconfig=config)[0]) == {"po/db-0"}
    assert set(ask("explain", "pod/", kubeconfig=config)[0]) == {"pod/other"}
    assert {seen.token for seen in api.seen} == {TOKEN}


def test_the_cluster_is_asked_as_the_command_would_ask_it(kube: Kube, api: KubernetesApi) -> None:
    api.add_user("other-token")
    line = ("--kubeconfig", str(kube.path), "--token", "other-token", "--as", "alice", "explain", "pod/")
    assert ask(*line) == ({}, 4)
    assert (api.seen[0].token, api.seen[0].all("Impersonate-User")) == ("other-token", ["alice"])


def test_namespaces_complete(kube: Kube) -> None:
    for line in (("explain", "pod/web", "-n"), ("kube", "whoami", "--namespace"), ("-n",)):
        assert set(ask(*line, "", kubeconfig=kube.path)[0]) == {"default", "shop"}


def test_nodes_complete(kube: Kube) -> None:
    for line in (("explain", "-A", "--node"), ("can-pull", "--node"), ("doctor", "--node")):
        assert ask(*line, "", kubeconfig=kube.path) == ({"node-1": "", "node-2": ""}, 4)


def test_nothing_is_said_of_what_cannot_be_listed(kube: Kube, api: KubernetesApi) -> None:
    for prepare in (
        api.users.clear,
        kube.answer,
        lambda: kube.write("https://127.0.0.1:9"),
        lambda: kube.path.write_text("{"),
        kube.path.unlink,
    ):
        prepare()
        assert ask("explain", "pod/", kubeconfig=kube.path) == ({}, NO_FILES)
    assert ask("explain", "--request-timeout", "soon", "pod/") == ({}, NO_FILES)


def test_no_plugin_runs_that_must_prompt_or_that_the_policy_forbids(kube: Kube, tmp_path: Path) -> None:
    kube.write("https://127.0.0.1:9", user=exec_section(kube, interactiveMode="Always"))
    assert ask("explain", "pod/", kubeconfig=kube.path) == ({}, NO_FILES)
    kube.write("https://127.0.0.1:9")
    kuberc = tmp_path / "kuberc"
    kuberc.write_text(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
    )
    assert ask("explain", "pod/", kubeconfig=kube.path, KUBERC=str(kuberc)) == ({}, NO_FILES)
    assert kube.runs() == 0
    assert ask("explain", "pod/", kubeconfig=kube.path) == ({}, NO_FILES)
    assert kube.runs() == 1


def test_no_plugin_prompts_on_the_terminal_that_is_being_typed_in(kube: Kube) -> None:
    """Not one that asks if there is a terminal, and not one that opens the terminal by itself."""
    told, heard = kube.folder / "told", kube.folder / "heard"
    plugin = write_executable(
        kube.folder / "asks",
        f'#!/bin/sh\nprintf %s "$KUBERNETES_EXEC_INFO" > {told}\n(read -r word < /dev/tty) 2> {heard}\n',
    )
    asks = exec_section(kube, command=str(plugin), interactiveMode="IfAvailable")
    kube.write("https://127.0.0.1:9", user=asks)
    done = keyferry_on_terminal("__complete", "explain", "pod/", KUBECONFIG=str(kube.path), KUBERC="off")
    assert done.screen == ":4\n"
    assert json.loads(told.read_text())["spec"]["interactive"] is False
    assert heard.read_text() != ""


# The shells.


def complete_in_bash(folder: Path, line: str, kubeconfig: Path | None = None) -> list[str]:
    """Return what bash would put in place of the last word, or of its part after the last colon."""
    state = f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}"
    program = f'source {script("bash", folder)}; {state}; _keyferry; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [need("bash"), "-c", program],
        env=environment(folder, kubeconfig),
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(done.stdout.split())


def test_bash_completes(tmp_path: Path, kube: Kube) -> None:
    assert complete_in_bash(tmp_path, "keyferry ex") == ["explain"]
    assert complete_in_bash(tmp_path, "keyferry get x --output ")[-1] == "yaml"
    assert complete_in_bash(tmp_path, "keyferry get x --output=j") == ["json"]
    assert complete_in_bash(tmp_path, "keyferry kube raw --context ") == ["prod", "test"]
    assert complete_in_bash(tmp_path, "keyferry explain -n shop pod/w", kube.path) == [
        "pod/web-1",
        "pod/web-2",
    ]


def test_bash_completes_files_where_a_value_is_free(tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").touch()
    assert complete_in_bash(tmp_path, f"keyferry lint {tmp_path}/prov") == [f"{tmp_path}/providers.yaml"]


def test_bash_completes_names_with_colons(tmp_path: Path) -> None:
    """EKS names contexts so; bash replaces only what follows the last colon."""
    config = with_contexts(tmp_path, "arn:aws:eks:eu-west-1:1234:cluster/prod")
    assert complete_in_bash(tmp_path, "keyferry kube raw --context arn:aws:eks:eu", config) == [
        "eu-west-1:1234:cluster/prod"
    ]


def complete_in_fish(folder: Path, line: str, kubeconfig: Path | None = None) -> dict[str, str]:
    """Return the offers with their descriptions."""
    program = f"source {script('fish', folder)}; complete -C '{line}'"
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", program],
        env=environment(folder, kubeconfig),
        capture_output=True,
        text=True,
        check=True,
    )
    offers = (offer.partition("\t") for offer in done.stdout.splitlines())
    return {name: text for name, _, text in offers}


def test_fish_completes(tmp_path: Path, kube: Kube) -> None:
    assert complete_in_fish(tmp_path, "keyferry ex")["explain"].startswith("explain why the kubelet has")
    assert list(complete_in_fish(tmp_path, "keyferry kube who")) == ["whoami"]
    assert list(complete_in_fish(tmp_path, "keyferry kube raw --context ")) == ["prod", "test"]
    assert list(complete_in_fish(tmp_path, "keyferry kube raw --trus")) == ["--trust"]
    assert list(complete_in_fish(tmp_path, "keyferry explain -n shop pod/w", kube.path)) == [
        "pod/web-1",
        "pod/web-2",
    ]
    (tmp_path / "providers.yaml").touch()
    assert list(complete_in_fish(tmp_path, f"keyferry lint {tmp_path}/prov")) == [
        f"{tmp_path}/providers.yaml"
    ]


def complete_in_zsh(folder: Path, *lines: tuple[str, Path | None]) -> list[list[str]]:
    """Return the offers for each line with its kubeconfig, as zsh gets them, with their descriptions.

    The script is a function that zsh autoloads.
    """
    path = script("zsh", folder)
    (folder / "_keyferry").write_text(path.read_text())
    environ = environment(folder)
    asked = ""
    for line, kubeconfig in lines:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        asked += f"KUBECONFIG={kubeconfig or environ['KUBECONFIG']}\n"
        asked += f"words=({words}); CURRENT=$#words; _keyferry; print end\n"
    program = f"""
        fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D
        _describe() {{ print -rl -- "${{(@P)2}}" "${{@[3,-1]}}" }}
        _files() {{ print files }}
        autoload -Uz +X _keyferry; unfunction _keyferry; source {path}
        {asked}
    """
    done = subprocess.run(
        [need("zsh"), "-f", "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [part.splitlines() for part in done.stdout.split("end\n")[:-1]]


def test_zsh_loads_and_completes(tmp_path: Path, kube: Kube) -> None:
    named, contexts, kinds, pods, files, colons = complete_in_zsh(
        tmp_path,
        ("keyferry ex", None),
        ("keyferry kube raw --context ", None),
        ("keyferry explain po", None),
        ("keyferry explain -n shop pod/w", kube.path),
        ("keyferry lint prov", None),
        ("keyferry kube raw --context arn", with_contexts(tmp_path / "kube", "arn:aws:eks")),
    )
    assert named[0].startswith("explain:explain why the kubelet has")
    assert contexts == ["prod", "test"]
    assert kinds == ["pod/:a Pod", "-S", ""]
    assert pods == ["pod/web-1", "pod/web-2"]
    assert files == ["files"]
    assert colons == ["arn\\:aws\\:eks"]
