"""Bad input gets one clear message, the right exit code and no traceback."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keyferry
from support.commands import Node, plain_pod, run_in_process
from support.pulling import FakeTarget

IMAGE = "reg.io/team/app:v1"
BASE = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"


def check(code: int, message: str, *words: str) -> None:
    done = run_in_process(*words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path).add("one", ["reg.io"])


@pytest.mark.parametrize("command", ["get", "explain"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read: no such file or directory", id="no such file"),
        pytest.param("a: [", "c.yaml:2:1: not valid YAML", id="not YAML"),
        pytest.param("{", "not valid JSON", id="not JSON"),
        pytest.param("", "c.yaml:1:1: the file is empty, expected 'CredentialProviderConfig'", id="empty"),
        pytest.param("# later\n---\n", "the file has nothing but comments", id="only comments"),
        pytest.param("{}", "kind is missing", id="no kind"),
        pytest.param(
            "kind: X\nproviders:\n\t- name: x\n",
            "c.yaml:3:1: not valid YAML: a tab, which YAML does not allow for indentation; use spaces",
            id="tab",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\n", "are not those of a credential provider config", id="wrong kind"
        ),
        pytest.param(BASE, "no provider is configured", id="no providers"),
        pytest.param(
            BASE + "providers:\n- nam: x\n", "c.yaml:4:3: providers[0].nam: unknown field", id="unknown field"
        ),
    ],
)
def test_a_config_a_kubelet_refuses(
    node: Node, tmp_path: Path, command: str, content: str | None, message: str
) -> None:
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_text(content)
    check(3, message, command, IMAGE, "--config", str(path), "--bin-dir", str(node.bin_dir))


DOCTOR = "to see what the kubelet of this machine uses, try: keyferry doctor"
POD = "to write such a file, try: kubectl get pod NAME -o yaml > FILE"
SECRET = "to write such a file, try: kubectl get secret NAME -o yaml > FILE"
PLAN = ("records", "plan", "--root", ".", "--policy", "AlwaysVerify")


@pytest.mark.parametrize(
    ("words", "step"),
    [
        *(
            pytest.param((command, IMAGE, option), step, id=f"{command} {option}")
            for option, step in (("--config", DOCTOR), ("--bin-dir", DOCTOR))
            for command in ("get", "explain")
        ),
        *(
            pytest.param((command, IMAGE, option), step, id=f"{command} {option}")
            for option, step in (("-f", POD), ("--secret", SECRET), ("--docker-config", DOCTOR))
            for command in ("get", "explain", "can-pull")
        ),
        pytest.param((*PLAN, "-f"), POD, id="records plan -f"),
        pytest.param((*PLAN, "-f", "plain-pod.json", "--secret"), SECRET, id="records plan --secret"),
        pytest.param(("lint",), DOCTOR, id="lint"),
        pytest.param(
            ("kube", "token", "--kubeconfig"),
            "give another one with --kubeconfig or KUBECONFIG",
            id="kube --kubeconfig",
        ),
    ],
)
def test_a_file_that_is_not_there_is_named_with_the_next_command(
    node: Node, tmp_path: Path, words: tuple[str, ...], step: str
) -> None:
    (tmp_path / "image_manager" / "pulled").mkdir(parents=True)
    plain_pod(tmp_path)
    options = node.options() if IMAGE in words else []
    done = run_in_process(words[0], *options, *words[1:], "nope", cwd=tmp_path)
    assert done.returncode == 3
    assert re.search("no such file|does not exist", done.stdout + done.stderr)
    assert done.stderr.splitlines()[-1] == f"keyferry: looked for {tmp_path / 'nope'}; {step}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["get", IMAGE, "-f"], "is empty; expected the output of 'kubectl get -o yaml'", id="-f"),
        pytest.param(["get", IMAGE, "--secret"], "is empty; expected the output of 'kubectl", id="--secret"),
        pytest.param(["get", IMAGE, "--docker-config"], "is empty, expected JSON", id="--docker-config"),
        pytest.param(
            ["get", IMAGE, "--service-account", "a/b", "--service-account-token"],
            "is empty; expected one line, as printed by 'kubectl create token'",
            id="--service-account-token",
        ),
        pytest.param(["agent", "config", "--agent-config"], "the file is empty, expected", id="--agent-config"),
        pytest.param(
            ["records", "recover", "--root", ".", "--images"],
            "is empty, expected the output of 'crictl images -o json'",
            id="--images",
        ),
    ],
)  # fmt: skip
def test_an_empty_file_is_called_empty(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    done = run_in_process(*words, "empty", cwd=tmp_path)
    assert done.returncode == 3
    assert f"empty: {message}" in done.stderr or f":1: {message}" in done.stderr


@pytest.mark.parametrize("option", ["-f", "--secret"])
def test_a_docker_config_that_is_given_as_an_object_is_sent_to_its_option(
    tmp_path: Path, option: str
) -> None:
    (tmp_path / "config.json").write_text('{"auths": {"reg.io": {"auth": "dTpwYXNzd29yZA=="}}}')
    done = run_in_process("get", IMAGE, option, "config.json", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr == "keyferry: config.json: found a docker config; give it with --docker-config FILE\n"


@pytest.mark.parametrize("command", ["get", "explain"])
def test_a_name_that_may_be_a_pods_is_tried_as_one(node: Node, command: str) -> None:
    done = run_in_process(command, "web-1", "-n", "shop", *node.options())
    shown = " ".join((done.stdout + done.stderr).split())
    assert "if 'web-1' is a pod, try: keyferry explain pod/web-1 -n shop" in shown
    for image in ("web:v1", "team/web", "reg.io/web"):
        other = run_in_process(command, image, "-n", "shop", *node.options())
        assert "is a pod, try" not in other.stdout + other.stderr


@pytest.mark.parametrize("command", ["get", "explain"])
def test_the_name_of_the_pod_in_the_file_is_no_image(node: Node, tmp_path: Path, command: str) -> None:
    option, path = plain_pod(tmp_path)
    done = run_in_process(command, "web", option, path, *node.options())
    assert done.stderr.splitlines()[0] == (
        f"keyferry: 'web' is the name of pod team/web in {path}, and is looked up as an image; "
        f"to explain the images of the file, try: keyferry explain --config {node.config} "
        f"--bin-dir {node.bin_dir} -f {path}"
    )
    other = run_in_process(command, IMAGE, option, path, *node.options())
    assert "looked up as an image" not in other.stderr


@pytest.mark.parametrize(
    ("first_line", "cure"),
    [
        pytest.param("#!/bin/sh\r", "convert its line ends: sed -i 's/\\r$//' {}", id="line ends of Windows"),
        pytest.param("#!/no/python3.9 -x", "install /no/python3.9, or change line 1 of {}", id="no interpreter"),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_started_has_its_own_cure(node: Node, first_line: str, cure: str) -> None:
    (node.bin_dir / "one").write_bytes(f"{first_line}\n".encode())
    done = run_in_process("explain", IMAGE, *node.options())
    assert cure.format(node.bin_dir / "one") in " ".join(done.stdout.split())


def test_a_directory_without_config_files(node: Node, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = ("get", IMAGE, "--config", str(tmp_path / "empty"), "--bin-dir", str(node.bin_dir))
    check(3, "the directory holds no .json, .yaml or .yml file", *words)


def test_no_config_anywhere_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """A bin dir alone is a mistake; without one, the other sources are still looked at."""
    done = run_in_process("get", IMAGE, "--bin-dir", str(tmp_path), KEYFERRY_CONFIG="")
    assert done.returncode == 3
    assert (
        "no provider config found: give --image-credential-provider-config or KEYFERRY_CONFIG" in done.stderr
    )
    done = run_in_process("get", IMAGE, KEYFERRY_CONFIG="", KEYFERRY_BIN_DIR=str(tmp_path))
    assert done.returncode == 6
    assert "found no provider config, so no plugin is asked; give one with --config" in done.stderr


@pytest.mark.parametrize(
    "image", ["", "Reg.io/App", "reg.io/a b", "http://reg.io/app", "a@sha256:short", "-"]
)
def test_an_image_that_does_not_parse(node: Node, image: str) -> None:
    check(2, "is not an image name", "get", image, *node.options())


@pytest.mark.parametrize("command", ["explain", "can-pull"])
@pytest.mark.parametrize("is_removed", [True, False], ids=["missing", "not executable"])
def test_a_plugin_that_cannot_be_run_fails_for_its_own_images_alone(
    node: Node, tmp_path: Path, command: str, *, is_removed: bool
) -> None:
    """As in a kubelet that runs; a note says that it would not start again, with the problem of the config."""
    node.add("two", ["two.io"], '{"two.io": {"username": "u", "password": "p"}}')
    words = (*plain_pod(tmp_path), *node.options())
    before = run_in_process(command, "two.io/app", *words)
    assert "a restart of the kubelet" not in before.stdout + before.stderr
    if is_removed:
        (node.bin_dir / "one").unlink()
    else:
        (node.bin_dir / "one").chmod(0o644)
    other = run_in_process(command, "two.io/app", *words)
    # No registry of these names can be reached, so can-pull knows no answer.
    assert other.returncode == before.returncode == (0 if command == "explain" else 6)
    own = run_in_process(command, IMAGE, *words)
    assert own.returncode == 4, own.stderr
    assert "plugin 'one': the executable " in own.stdout + own.stderr
    note = "a restart of the kubelet would fail with this config: "
    problem = f"{node.bin_dir / 'one'} is {'missing' if is_removed else 'not executable'}"
    for done in (other, own):
        told = done.stdout + done.stderr
        assert problem in told[told.index(note) :].splitlines()[0]
    check(3, problem, "get", "two.io/app", *words)


@pytest.mark.parametrize("command", ["explain", "can-pull"])
def test_another_problem_of_the_config_is_not_excused(node: Node, tmp_path: Path, command: str) -> None:
    """Also beside a plugin that is missing, and for a bin dir that is."""
    (node.bin_dir / "one").unlink()
    words = ("--config", str(node.config), "--bin-dir", str(tmp_path / "none"))
    check(3, "the bin dir does not exist", command, IMAGE, *words)
    node.config.write_text(node.config.read_text().replace("matchImages", "matchImage"))
    check(3, "matchImage", command, IMAGE, *node.options())


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param("#!/bin/sh\nsleep 30\n", 124, "did not finish within 0.3 s and was killed", id="slow"),
        pytest.param("#!/bin/sh\nexit 0\n", 4, "is not one JSON object", id="silent"),
        pytest.param(
            "#!/bin/sh\necho '{}'\n", 4, "the apiVersion of its response is none", id="empty object"
        ),
        pytest.param(
            "#!/bin/sh\necho it broke >&2; exit 7\n", 4, "exited with status 7; stderr: it broke", id="exit 7"
        ),
        pytest.param("#!/bin/sh\nkill -9 $$\n", 4, "was killed by SIGKILL", id="killed"),
        pytest.param("no shebang\n", 4, "cannot be started: exec format error", id="no shebang"),
        pytest.param(
            "#!/no/such/interpreter -x\n",
            4,
            "/one names the interpreter '/no/such/interpreter' in its first line, which does not exist",
            id="no interpreter",
        ),
        pytest.param(
            "#!/bin/sh\r\n",
            4,
            "'/bin/sh\\r' in its first line, which does not exist; its lines end with CR LF, expected LF",
            id="line ends of Windows",
        ),
        pytest.param(
            '#!/bin/sh\necho \'{"kind":"CredentialProviderResponse","apiVersion":'
            '"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Pod"}\'\n',
            4,
            "cacheKeyType of its response is none of Image, Registry, Global",
            id="lying",
        ),
    ],
)
def test_a_plugin_that_fails(node: Node, script: str, code: int, message: str) -> None:
    (node.bin_dir / "one").write_text(script)
    check(code, message, "get", IMAGE, "--timeout", "0.3", *node.options())


@pytest.mark.parametrize("command", ["explain", "plugin test", "plugin trace", "kube token"])
def test_every_command_names_an_interpreter_that_is_missing(node: Node, tmp_path: Path, command: str) -> None:
    plugin = node.bin_dir / "one"
    plugin.write_text("#!/no/such/interpreter -x\n")
    kubeconfig = tmp_path / "kubeconfig"
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    kubeconfig.chmod(0o600)
    more = {
        "explain": [IMAGE, *plain_pod(tmp_path), *node.options()],
        "plugin test": [str(plugin), "--image", IMAGE],
        "plugin trace": [str(plugin), IMAGE],
        "kube token": ["--kubeconfig", str(kubeconfig)],
    }
    done = run_in_process(*command.split(), *more[command])
    assert done.returncode in (1, 3, 4)
    said = " ".join((done.stdout + done.stderr).split())
    assert "names the interpreter '/no/such/interpreter' in its first line, which does not exist" in said
    assert "request and response" not in said
    assert "install 'one'" not in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read", id="missing"),
        pytest.param("a: [", "not valid YAML", id="not YAML"),
        pytest.param(
            "kind: ConfigMap\n", "found no Pod, workload, Secret or ServiceAccount", id="another kind"
        ),
        pytest.param(
            "kind: Secret\n",
            "object.yaml: found no Pod and no workload; expected one, and secrets with --secret",
            id="only a secret",
        ),
        pytest.param(
            "kind: Pod\n---\nkind: Secret\nmetadata: {name: login}\ndata: {.dockerconfigjson: '!'}\n",
            "is not base64",
            id="not base64",
        ),
        pytest.param("kind: Pod\nmetadata: {name: 5}\n", "expected a string, found int", id="wrong type"),
    ],
)
def test_a_pod_or_secret_file_that_cannot_be_used(
    node: Node, tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "object.yaml"
    if content is not None:
        path.write_text(content)
    check(3, message, "get", IMAGE, "-f", str(path), *node.options())


def test_a_pull_secret_that_is_not_json_fails_the_lookup_as_in_the_kubelet(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(
        "kind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: s, namespace: ns}\n"
        "stringData: {.dockerconfigjson: nope}\n"
    )
    message = "pull secret ns/s, key '.dockerconfigjson': is not JSON"
    check(3, message, "get", IMAGE, "--secret", str(path), *node.options())


def test_a_token_without_an_account(node: Node, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    words = ("get", IMAGE, "--service-account-token", str(tmp_path / "token"))
    check(2, "--service-account-token requires the token's account", *words, *node.options())
    check(2, "expected NAMESPACE/NAME", "get", IMAGE, "--service-account", "builder", *node.options())


def test_a_closed_pipe_is_no_traceback(node: Node, tmp_path: Path) -> None:
    options = " ".join((*plain_pod(tmp_path), *node.options()))
    command = f"{sys.executable} -m keyferry get {IMAGE} {options} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


# Runs commands with little memory, and prints what each ends with.
WITH_LITTLE_MEMORY = """
import contextlib, io, json, resource, sys
from keyferry.cli.main import main
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for words in json.loads(sys.argv[1]):
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        code = main(words)
    print(json.dumps([code, printed.getvalue(), said.getvalue()]))
"""
ENDLESS = "/dev/zero"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("where", [ENDLESS, "standard input"])
def test_what_has_no_end_is_refused(node: Node, where: str) -> None:
    """By every option that names a file, before the memory is full; also standard input, where it is a dash."""
    path = ENDLESS if where == ENDLESS else "-"
    config = str(node.config)
    commands = [
        ["explain", "x", "-f", path],
        ["diff", config, config, "--images", path],
        ["records", "prune", "--images", path],
    ]
    if where == ENDLESS:
        commands += [
            ["explain", "x", "--secret", path],
            ["explain", "x", "--docker-config", path],
            ["explain", "x", "--service-account", "a/b", "--service-account-token", path],
            ["get", "x", "--config", path, "--bin-dir", "/"],
            ["explain", "x", "--config", path, "--bin-dir", "/"],
            ["plugin", "trace", "x", "--config", path, "--", "/bin/true"],
            ["diff", path, path],
        ]
    with subprocess.Popen(["yes", "a: b"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(
            [sys.executable, "-c", WITH_LITTLE_MEMORY, json.dumps(commands)],
            stdin=endless.stdout,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        endless.kill()
    assert done.returncode == 0, done.stderr
    for words, line in zip(commands, done.stdout.splitlines(), strict=True):
        code, printed, said = json.loads(line)
        assert (code, printed) == (3, ""), words
        assert re.search(
            rf"{where}:? cannot be read: it has more than 16 MiB, the most that is read", said
        ), words


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_time_limit_that_leaves_no_time_is_a_mistake(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.load_providers(tmp_path / "c.yaml", tmp_path, timeout_seconds=seconds)
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.load_cluster(kubeconfig=tmp_path / "kubeconfig", timeout_seconds=seconds)
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.check_registry("reg.io/app", timeout_seconds=seconds)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_pulls_that_lets_none_run_is_a_mistake(number: int) -> None:
    with pytest.raises(ValueError, match=r"max_parallel is .*, expected 1 or more"):
        keyferry.Puller(FakeTarget(), max_parallel=number)
