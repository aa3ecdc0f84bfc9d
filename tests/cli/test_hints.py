"""Hints are commands that work when they are pasted: each is run by a shell, as it was printed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry import ClusterOptions, RecordOptions, RegistryOptions, Request
from keyferry.cli import explain
from keyferry.cli.parser import make_parser
from keyferry.cli.run import load_command
from support.commands import Node, plain_pod, run_in_process
from support.fake_cloud import Reply, serving

# Every path of these tests has what a shell must be told about.
FOLDER = "a folder's own"
KUBECTL = """\
#!/bin/sh
for word; do printf '%s\\n' "$word"; done >> "$0.words"
case "$1 $2" in
"get serviceaccount") printf 'kind: ServiceAccount\\nmetadata: {name: "%s", namespace: "%s"}\\n' "$3" "$5"; exit ;;
esac
case "$1" in get|create) echo 'kind: Secret' ;; apply) cat > /dev/null ;; esac
"""


class Shell:
    """A shell with keyferry, and with a kubectl that notes its words."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "shell-bin"
        self._bin.mkdir()
        self._write("keyferry", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m keyferry "$@"\n')
        self._write("kubectl", KUBECTL)
        self.folder = folder

    def _write(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def paste(self, line: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a line as it is."""
        path = f"{self._bin}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "10000", "PATH": path, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def kubectl_words(self) -> list[str]:
        """The words that kubectl was called with, of all calls."""
        return (self._bin / "kubectl.words").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / FOLDER
    path.mkdir()
    return path


@pytest.fixture
def shell(folder: Path) -> Shell:
    return Shell(folder)


@pytest.fixture
def node(folder: Path) -> Node:
    return Node(folder)


def hints(text: str) -> list[str]:
    """Return the commands that messages name."""
    return [line.partition("try: ")[2] for line in text.splitlines() if "try: " in line]


def cures(*words: str) -> list[str]:
    """Return the lines that an explanation gives to paste."""
    document = json.loads(run_in_process("explain", *words, "-o", "json").stdout)
    return [line for cure in document["cure"] for line in cure["lines"]]


def test_get_names_the_explanation_with_the_same_options(node: Node, folder: Path, shell: Shell) -> None:
    node.add("own", ["reg.io"])
    words = [*node.options(), *plain_pod(folder), "--timeout", "5", "--withhold-env", "A", "-o", "json"]
    (hint,) = hints(run_in_process("get", "other.io/app", *words).stderr)
    assert shlex.split(hint)[:3] == ["keyferry", "explain", "other.io/app"]
    done = shell.paste(hint)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("✗ no credential is found: nothing that is configured is for other.io\n")
    assert str(node.config) in shell.paste(f"{hint} -o wide").stdout
    assert shlex.split(hint)[3:] == [
        *node.options(),
        *plain_pod(folder),
        "--timeout",
        "5",
        "--withhold-env",
        "A",
    ]


@pytest.mark.parametrize("command", ["get", "can-pull"])
@pytest.mark.parametrize("before", ["echo hello; exit 0", "exit 3", "kill -9 $$"])
def test_after_a_plugin_has_failed_its_trace_is_named(
    command: str, before: str, node: Node, folder: Path, shell: Shell
) -> None:
    node.add("own", ["127.0.0.1:1"], before=before)
    options = [*node.options(), *plain_pod(folder)]
    if command == "can-pull":
        options += ["--hosts-dir", str(folder)]
    (hint,) = hints(run_in_process(command, "127.0.0.1:1/app", *options).stderr)
    done = shell.paste(hint)
    assert done.returncode == 1, done.stderr
    assert "kind: PluginTrace" in done.stdout
    assert "accepted: false" in done.stdout
    assert ("killed by SIGKILL" in done.stdout) is ("kill" in before)
    assert "-9" not in done.stdout.replace("kill -9", "").replace(str(folder.parent), "")
    assert cures("127.0.0.1:1/app", *node.options(), *plain_pod(folder)) == [hint]


def test_a_missing_plugin_is_found_by_the_lint_that_is_named(node: Node, folder: Path, shell: Shell) -> None:
    node.add("own", ["reg.io"])
    (node.bin_dir / "own").unlink()
    (hint,) = hints(run_in_process("get", "reg.io/app", *node.options(), *plain_pod(folder)).stderr)
    done = shell.paste(hint)
    assert done.returncode == 1, done.stderr
    assert "KF" in done.stdout
    assert "missing" in done.stdout


def test_a_credential_that_is_found_can_be_checked(node: Node, folder: Path, shell: Shell) -> None:
    node.add("own", ["127.0.0.1:1"], '{"127.0.0.1:1": {"username": "u", "password": "p"}}')
    options = [*node.options(), *plain_pod(folder), "--hosts-dir", str(folder)]
    (line,) = cures("127.0.0.1:1/app", *options)
    done = shell.paste(line)
    assert done.returncode == 6, done.stderr
    assert done.stdout.startswith("? cannot tell whether 127.0.0.1:1/app can be pulled")


def test_the_pattern_that_is_named_matches(node: Node, folder: Path) -> None:
    node.add("own", ["reg.io"], '{"reg.io:5000": {"username": "u", "password": "p"}}')
    words = ["reg.io:5000/app", *node.options(), *plain_pod(folder)]
    (line,) = cures(*words)
    assert line == '- "reg.io:5000"'
    text = node.config.read_text().replace('matchImages: ["reg.io"]', f"matchImages:\n  {line}")
    node.config.write_text(text)
    assert run_in_process("get", *words).returncode == 0


def test_a_pull_secret_is_created_for_the_pod_without_a_password_on_the_screen(
    node: Node, folder: Path, shell: Shell
) -> None:
    node.add("own", ["reg.io"])
    lines = cures("other.io:5000/app", *node.options(), *plain_pod(folder))
    for line in lines:
        assert shell.paste(line, REGISTRY_USERNAME="bob", REGISTRY_PASSWORD="its word").returncode == 0
    words = shell.kubectl_words
    create, patch = words[: words.index("patch")], words[words.index("patch") :]
    patch, recreate = patch[: patch.index("get")], patch[patch.index("get") :]
    assert recreate[:5] == ["get", "pod", "web", "-n", "team"]
    assert create == [
        *("create", "secret", "docker-registry", "regcred", "-n", "team", "--docker-server=other.io:5000"),
        *("--docker-username=bob", "--docker-password=its word"),
    ]
    # Secrets that the account may list already stay.
    assert patch[:5] == ["patch", "serviceaccount", "default", "-n", "team"]
    (operation,) = json.loads(patch[patch.index("-p") + 1])
    assert operation == {"op": "add", "path": "/imagePullSecrets/-", "value": {"name": "regcred"}}


TOKENS = """\
  tokenAttributes:
    serviceAccountTokenAudience: the registry
    cacheType: Token
    requireServiceAccount: true
"""


def test_inputs_that_are_missing_are_named_with_the_commands_that_give_them(
    node: Node, folder: Path, shell: Shell
) -> None:
    node.add("own", ["reg.io"], extra=TOKENS)
    pod = folder / "pod.json"
    spec = {"serviceAccountName": "puller", "imagePullSecrets": [{"name": "regcred"}]}
    pod.write_text(
        json.dumps(
            {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec}
        )
    )
    lines = cures("reg.io/app", *node.options(), "-f", str(pod))
    own = [folder / "regcred.yaml", folder / "token"]
    for path in own:
        path.write_text("the user's own file")
    before = {*folder.iterdir()}
    assert [line for line in lines if shell.paste(line).returncode == 2] == []
    assert {path.read_text() for path in own} == {"the user's own file"}
    made = {*folder.iterdir()} - before
    assert len(made) == len(lines) == 2
    assert {path.stat().st_mode & 0o077 for path in made} == {0}
    words = shell.kubectl_words
    assert words == [
        *("get", "secret", "regcred", "-n", "shop", "-o", "yaml"),
        *("create", "token", "puller", "-n", "shop", "--audience", "the registry"),
    ]


def test_a_service_account_that_is_missing_is_added_to_the_file_by_the_commands(
    node: Node, folder: Path, shell: Shell
) -> None:
    """The file with the pod stays as it is, and its last line need not have an end."""
    node.add("own", ["else.io"])
    (folder / "docker.json").write_text("{}")
    container = {"name": "app", "image": "reg.io/app"}
    document = {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [container]},
    }
    file = folder / "the pod's.json"
    file.write_text(json.dumps(document))
    options = [*node.options(), "--docker-config", str(folder / "docker.json")]
    done = shell.paste(cures("reg.io/app", *options, "-f", str(file))[-1])
    assert shell.kubectl_words == ["get", "serviceaccount", "default", "-n", "shop", "-o", "yaml"]
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("✗ no credential is found")
    assert "get serviceaccount" not in done.stdout
    assert json.loads(file.read_text()) == document


def test_a_pod_from_standard_input_is_a_file_in_the_commands_for_its_account(node: Node) -> None:
    node.add("own", ["else.io"])
    document = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": []}}
    done = run_in_process("explain", "reg.io/app", *node.options(), "-f", "-", stdin=json.dumps(document))
    assert done.returncode == 6, done.stderr
    get = "kubectl get serviceaccount default -n shop -o yaml"
    assert f'(cat FILE && echo && echo --- && {get}) > "$with" && keyferry explain reg.io/app ' in done.stdout


def test_pull_names_an_explanation_only_where_that_helps(node: Node, folder: Path, shell: Shell) -> None:
    node.add("own", ["other.io"])
    options = [*node.options(), *plain_pod(folder), "--quiet"]
    unreachable = run_in_process("pull", "127.0.0.1:1/app", "--to", str(folder / "out"), *options)
    assert hints(unreachable.stderr) == []
    assert unreachable.stderr.count("cannot be reached") == 1
    with serving(lambda _: Reply(status=401)) as server:
        image = f"127.0.0.1:{server.port}/app"
        refused = run_in_process("pull", image, "--to", str(folder / "out"), *options)
        (hint,) = hints(refused.stderr)
        assert shell.paste(hint).returncode == 1
        (folder / "file").write_text("")
        unwritable = run_in_process("pull", image, "--to", str(folder / "file"), *options)
    assert unwritable.returncode == 3
    assert hints(unwritable.stderr) == []


def test_kube_repeats_its_kubeconfig_and_context(folder: Path, shell: Shell) -> None:
    path = folder / "kube config"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "contexts": [{"name": "a b", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"exec": {"command": "/no/such", "apiVersion": "x"}}}],
            }
        )
    )
    path.chmod(0o600)
    where = ["--kubeconfig", str(path)]
    (hint,) = hints(run_in_process("kube", "whoami", *where, "--context", "none").stderr)
    assert shlex.split(hint) == ["keyferry", "kube", "contexts", *where]
    done = shell.paste(hint)
    assert done.returncode == 0, done.stderr
    assert "a b" in done.stdout


@pytest.mark.parametrize(
    ("option", "is_there"),
    [("--cluster-profile", "--provider-file"), ("--provider-file", "--cluster-profile")],
)
def test_the_option_of_a_file_that_is_not_there_is_named(folder: Path, option: str, is_there: str) -> None:
    (folder / "some.json").write_text("{}")
    absent = folder / "none.json"
    done = run_in_process("kube", "explain", option, str(absent), is_there, str(folder / "some.json"))
    assert done.returncode == 3
    assert f"looked for {absent}; give another one with {option}\n" in done.stderr


EVERYTHING = Request(
    image="reg.io/app",
    namespace="shop",
    filename="the pod's.yaml",
    secrets=("s1", "s2"),
    service_account="shop/puller",
    service_account_token="token",
    docker_config="auto",
    config="a b",
    bin_dir="c",
    here=True,
    no_run=True,
    timeout_seconds=5.0,
    withhold_env=("A", "B"),
    env_from="self",
    agent="off",
    request_token=True,
    check_registry=True,
    cluster=ClusterOptions(
        context="prod",
        kubeconfig="kube.yaml",
        cluster="c",
        user="u",
        server="https://s",
        tls_server_name="n",
        certificate_authority="the ca.pem",
        insecure=True,
        impersonate="alice",
        impersonate_groups=("dev", "ops"),
        impersonate_uid="7",
        request_timeout_seconds=0.25,
    ),
    registry=RegistryOptions(
        ca_file="ca.pem", insecure=True, timeout_seconds=0.5, hosts_dir="hosts", registries_conf="conf"
    ),
    records=RecordOptions(
        root="/root", policy="NeverVerifyAllowlistedImages", allow=("reg.io/*",), cri="auto"
    ),
)


@pytest.mark.parametrize(
    "request_",
    [
        EVERYTHING,
        Request(image="reg.io/app"),
        Request(target="deploy/web", namespace="shop"),
        Request(filename="pods.yaml"),
        Request(image="reg.io/app", records=RecordOptions(image_id="sha256:1")),
    ],
    ids=["everything", "image", "target", "file", "id"],
)
def test_a_command_asks_the_same_question(request_: Request) -> None:
    words = shlex.split(request_.explain_command())
    assert words[:2] == ["keyferry", "explain"]
    args = make_parser("keyferry explain", load_command("explain")).parse_args(words[2:])
    assert explain.make_request(args) == request_


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        pytest.param(Request(image="x", is_start=True), "keyferry explain x", id="defaults"),
        pytest.param(Request(filename="-"), "keyferry explain -f FILE", id="standard input, which is gone"),
        pytest.param(
            Request(target="pod/web", cluster=ClusterOptions(token="s3cret", context="prod")),
            "keyferry explain pod/web --context prod --token TOKEN",
            id="never a token",
        ),
    ],
)
def test_what_cannot_be_pasted_is_not_repeated(request_: Request, command: str) -> None:
    assert request_.explain_command() == command


def test_a_trial_has_the_options_that_it_shares() -> None:
    command = EVERYTHING.try_command("reg.io/app", "shop/puller")
    assert command == (
        "keyferry plugin try reg.io/app --service-account shop/puller --config 'a b' --bin-dir c --timeout 5 "
        "--withhold-env A --withhold-env B --env-from self --ca-file ca.pem --insecure --registry-timeout 0.5 "
        "--hosts-dir hosts --registries-conf conf --kubeconfig kube.yaml --context prod --cluster c --user u "
        "--server https://s --tls-server-name n --certificate-authority 'the ca.pem' --insecure-skip-tls-verify "
        "--as alice --as-group dev --as-group ops --as-uid 7 --request-timeout 0.25"
    )
