"""The commands on a node whose kubelet runs: its settings, its environment, and what is refused beside it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import keyferry
from support.commands import Node, run_in_process
from support.kubelets import Processes, listening, write_config
from support.parts import missing, need, root
from support.records import IMAGE, plant

IMAGE_OF_PLUGIN = "reg.io/team/app"
TOKENS = """\
  tokenAttributes: {{serviceAccountTokenAudience: {audience}, cacheType: Token, requireServiceAccount: true}}
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one plugin, which writes down its environment."""
    return Node(tmp_path).add(
        "plugin", ["reg.io"], before='env > "$0.env"', extra="  env: [{name: SET, value: x}]\n"
    )


def flags(node: Node) -> list[str]:
    """The two flags of a kubelet."""
    return [
        f"--image-credential-provider-{name}={path}"
        for name, path in zip(("config", "bin-dir"), (node.config, node.bin_dir), strict=True)
    ]


def environment(node: Node) -> dict[str, str]:
    """What the plugin's last run had in its environment."""
    lines = (node.bin_dir / "plugin.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.parametrize("command", ["can-pull", "pull"])
def test_so_they_do_where_a_registry_is_asked(processes: Processes, tmp_path: Path, command: str) -> None:
    """Also if that cannot be reached."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"], before='env > "$0.env"')
    with processes.kubelet(*flags(node), env={"FROM_KUBELET": "7", "PATH": "/usr/bin:/bin"}):
        more = ["--to", str(tmp_path / "layout")] if command == "pull" else []
        run_in_process(command, "127.0.0.1:1/app:v1", *more, FROM_CALLER="1")
        assert environment(node)["FROM_KUBELET"] == "7"
        assert "FROM_CALLER" not in environment(node)


@pytest.mark.parametrize("command", ["get", "explain"])
def test_plugins_get_the_environment_of_the_kubelet(processes: Processes, node: Node, command: str) -> None:
    """As the kubelet runs them; nothing of the caller's. What the config sets comes on top."""
    with processes.kubelet(*flags(node), env={"FROM_KUBELET": "7", "SET": "over", "PATH": "/usr/bin:/bin"}):
        done = run_in_process(command, IMAGE_OF_PLUGIN, FROM_CALLER="1")
        assert done.returncode == 0, done.stderr
        found = environment(node)
        assert (found["FROM_KUBELET"], found["SET"]) == ("7", "x")
        assert "FROM_CALLER" not in found
        run_in_process(command, IMAGE_OF_PLUGIN, "--withhold-env", "FROM_KUBELET")
        assert "FROM_KUBELET" not in environment(node)
        run_in_process(command, IMAGE_OF_PLUGIN, "--env-from", "self", FROM_CALLER="1")
        assert "FROM_KUBELET" not in environment(node)
        assert environment(node)["FROM_CALLER"] == "1"


def test_a_config_that_is_given_has_the_callers_environment_unless_told(
    processes: Processes, node: Node
) -> None:
    """It is not the kubelet's; then nobody looks for one, unless its environment is asked for."""
    with processes.kubelet("--v=2", env={"FROM_KUBELET": "7", "PATH": "/usr/bin:/bin"}):
        assert run_in_process("get", IMAGE_OF_PLUGIN, *node.options(), FROM_CALLER="1").returncode == 0
        assert environment(node)["FROM_CALLER"] == "1"
        told = run_in_process(
            "get", IMAGE_OF_PLUGIN, *node.options(), "--env-from", "kubelet", FROM_CALLER="1"
        )
        assert told.returncode == 0
        assert environment(node)["FROM_KUBELET"] == "7"
        assert "FROM_CALLER" not in environment(node)
    missing = run_in_process("get", IMAGE_OF_PLUGIN, *node.options(), "--env-from", "kubelet")
    assert (missing.returncode, "no running kubelet" in missing.stderr) == (3, True)


def test_explain_says_whose_environment_it_was(processes: Processes, node: Node) -> None:
    """And warns where the kubelet's cannot be read, or was not wanted."""
    with processes.kubelet(*flags(node), env={"PATH": "/usr/bin:/bin"}) as pid:
        assert "\n! " not in run_in_process("explain", IMAGE_OF_PLUGIN).stdout
        wide = run_in_process("explain", IMAGE_OF_PLUGIN, "-o", "wide").stdout
        assert f"in the environment of the kubelet, process {pid}" in wide
        own = run_in_process("explain", IMAGE_OF_PLUGIN, "--env-from", "self", "-o", "json")
        document = json.loads(own.stdout)
        assert document["config"]["environmentFrom"] == "this process"
        assert [each["outcome"] for each in document["traps"]] == ["environment"]
    processes.write(17, "kubelet", *flags(node))
    hidden = run_in_process("explain", IMAGE_OF_PLUGIN)
    assert hidden.returncode == 0
    assert (
        "! plugins get the environment of this process, not that of the kubelet, process 17" in hidden.stdout
    )
    warning = "not that of the kubelet, process 17, which cannot be read"
    assert warning in hidden.stdout
    for words in (
        ["get"],
        ["can-pull", "--registry-timeout", "1"],
        ["pull", "--to", str(node.bin_dir / "to")],
    ):
        assert warning in run_in_process(*words, IMAGE_OF_PLUGIN).stderr
        assert warning not in run_in_process(*words, IMAGE_OF_PLUGIN, "--env-from", "self").stderr


def test_a_config_file_of_the_kubelet_sets_gates(processes: Processes, node: Node, tmp_path: Path) -> None:
    """A gate that is off stops such a kubelet here too."""
    node.add("account", ["acc.io"], extra=TOKENS.format(audience="a"))
    gates = {"KubeletServiceAccountTokenForCredentialProviders": False}
    config = write_config(tmp_path / "kubelet.yaml", featureGates=gates)
    with processes.kubelet(f"--config={config}", *flags(node)):
        refused = run_in_process("get", IMAGE_OF_PLUGIN)
        assert refused.returncode == 3
        assert "tokenAttributes" in refused.stderr


def test_a_config_file_of_the_kubelet_names_no_providers(
    processes: Processes, node: Node, tmp_path: Path
) -> None:
    """No kubelet has such fields: this one runs without providers, and explain says so and names the flag."""
    config = write_config(
        tmp_path / "kubelet.yaml",
        imageCredentialProviderConfigFile=str(node.config),
        imageCredentialProviderBinDir=str(node.bin_dir),
    )
    with processes.kubelet(f"--config={config}", env={"PATH": "/usr/bin:/bin"}):
        done = run_in_process("explain", IMAGE_OF_PLUGIN, "--here")
        assert done.returncode != 0, "a plugin for this image is there, and this kubelet does not ask it"
        text = " ".join(done.stdout.split())
        assert "the kubelet ignores it; set the flag --image-credential-provider-config" in text


def test_a_config_file_that_cannot_be_read_is_noted(processes: Processes, node: Node, tmp_path: Path) -> None:
    """It is nothing to those who do not need it."""
    config = tmp_path / "kubelet.yaml"
    config.write_text("{")
    with processes.kubelet(f"--config={config}", flags(node)[1], env={"PATH": "/usr/bin:/bin"}):
        done = run_in_process("get", IMAGE_OF_PLUGIN, "--config", str(node.config))
        assert done.returncode == 0, done.stderr
        assert f"keyferry: {config} of the kubelet" in done.stderr
        quiet = run_in_process("get", IMAGE_OF_PLUGIN, *node.options())
        (note,) = quiet.stderr.splitlines()
        assert (quiet.returncode, note.partition(",")[0]) == (0, "keyferry: the pod was not given")


def test_records_are_those_of_the_running_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Its root and its policy; what the command line says comes first."""
    root = tmp_path / "root"
    plant(root)
    config = write_config(tmp_path / "kubelet.yaml", imagePullCredentialsVerificationPolicy="AlwaysVerify")
    with processes.kubelet(f"--root-dir={root}", f"--config={config}") as pid:
        listed = run_in_process("records", "list", "-o", "json")
        assert json.loads(listed.stdout)["records"]
        assert f"root {root} (flags of the kubelet, process {pid})" in listed.stderr
        for words, policy in (
            ([], "AlwaysVerify"),
            (["--root", str(root)], "AlwaysVerify"),
            (["--policy", "NeverVerify"], "NeverVerify"),
        ):
            who = run_in_process("records", "who", IMAGE, *words)
            assert f"a pod without credentials, under {policy}:" in who.stdout, who.stderr
            assert (f"policy AlwaysVerify ({config} of the kubelet" in who.stderr) is (
                policy == "AlwaysVerify"
            )
        plan = run_in_process("records", "plan", "--policy", "NeverVerify", "-o", "json")
        assert json.loads(plan.stdout)["from"] == "AlwaysVerify"
        plant(tmp_path / "other")
        other = run_in_process("records", "who", IMAGE, "--root", str(tmp_path / "other"))
        assert "under NeverVerifyPreloadedImages:" in other.stdout


def test_the_nodes_docker_config_is_in_the_root_of_the_kubelet(
    processes: Processes, node: Node, tmp_path: Path
) -> None:
    """Where a kubelet looks first."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "config.json").write_text('{"auths": {"doc.io": {"username": "docker-user", "password": "p"}}}')
    with processes.kubelet(f"--root-dir={root}"):
        done = run_in_process("get", "doc.io/x", *node.options(), "--docker-config", "auto")
        assert "docker-user" in done.stdout, done.stderr


def test_a_kubelet_that_keeps_no_records_verifies_nothing(processes: Processes, tmp_path: Path) -> None:
    """With the gate off, whatever its policy would be."""
    plant(tmp_path)
    with processes.kubelet(f"--root-dir={tmp_path}", "--feature-gates=KubeletEnsureSecretPulledImages=false"):
        who = run_in_process("records", "who", IMAGE)
        assert "under NeverVerify:" in who.stdout
        assert "gate KubeletEnsureSecretPulledImages" in who.stderr


def test_a_policy_that_makes_no_sense_is_left_out(processes: Processes, tmp_path: Path) -> None:
    """It is the kubelet's and not the caller's mistake."""
    plant(tmp_path)
    config = write_config(tmp_path / "kubelet.yaml", imagePullCredentialsVerificationPolicy="Sometimes")
    with processes.kubelet(f"--root-dir={tmp_path}", f"--config={config}"):
        who = run_in_process("records", "who", IMAGE)
        assert who.returncode == 0
        assert "under NeverVerifyPreloadedImages:" in who.stdout
        assert "unknown policy 'Sometimes'" in who.stderr


@pytest.mark.parametrize(
    "words", [["records", "prune", "--cri", "auto"], ["pull", IMAGE], ["pull", IMAGE, "--cri", "auto"]]
)
def test_the_runtime_is_the_running_kubelets(processes: Processes, tmp_path: Path, words: list[str]) -> None:
    """Found by its endpoint, which is said; here nobody listens there any more."""
    plant(tmp_path)
    socket = tmp_path / "runtime.sock"
    with listening(socket):
        pass
    flags = [f"--container-runtime-endpoint=unix://{socket}", f"--root-dir={tmp_path}"]
    with processes.kubelet(*flags) as pid:
        done = run_in_process(*words)
        assert f"container runtime unix://{socket} (flags of the kubelet, process {pid})" in done.stderr
        assert done.returncode == 3
        assert "/root/" not in done.stderr, "by its plain name"


def test_pull_refuses_beside_a_kubelet_before_anything_is_asked(
    processes: Processes, node: Node, tmp_path: Path
) -> None:
    """A root of its is never written, also for a pull into a folder; no plugin is run for it."""
    root = tmp_path / "root"
    with processes.kubelet(f"--root-dir={root}"):
        words = [
            "pull",
            IMAGE_OF_PLUGIN,
            "--to",
            str(tmp_path / "layout"),
            "--root",
            str(root),
            *node.options(),
        ]
        done = run_in_process(*words, "--preload", "--no-kubelet")
        assert done.returncode == 3
        assert f"{root} is the root of a kubelet (process " in done.stderr
        assert not root.exists()
        assert not (node.bin_dir / "plugin.runs").exists()


def test_a_token_for_another_audience_does_not_reach_the_plugin(node: Node, tmp_path: Path) -> None:
    """The token of an API server is nothing to give to a registry's plugin; it is not shown either."""
    node.add(
        "account",
        ["acc.io"],
        '{"acc.io": {"username": "u", "password": "p"}}',
        extra=TOKENS.format(audience="registry.test"),
    )
    file = tmp_path / "token"
    words = [
        "get",
        "acc.io/x",
        *node.options(),
        "--service-account",
        "ns/sa",
        "--service-account-token",
        str(file),
    ]
    for audiences, code in (
        (["https://kubernetes.default.svc"], 6),
        (["other", "registry.test"], 0),
        ("registry.test", 0),
        (None, 6),
    ):
        claims = {"sub": "s"} if audiences is None else {"sub": "s", "aud": audiences}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        file.write_text(f"e30.{payload}.c2lnbmF0dXJl\n")
        done = run_in_process(*words)
        assert done.returncode == code, done.stderr
        assert (node.bin_dir / "account.runs").exists() is (code == 0)
        (node.bin_dir / "account.runs").unlink(missing_ok=True)
        if code:
            assert "expected the audience 'registry.test'" in done.stderr
            assert payload not in done.stdout + done.stderr


def test_the_library_passes_on_the_environment_it_is_given(node: Node) -> None:
    """Its own unless another is given, less what is withheld; no value of it shows."""
    given = {"PATH": "/usr/bin:/bin", "GIVEN": "kf-given-word", "WITHHELD": "1"}
    providers = keyferry.load_providers(node.config, node.bin_dir, environ=given, withhold_env=["WITHHELD"])
    assert providers.lookup(IMAGE_OF_PLUGIN).credentials
    found = environment(node)
    assert (found["GIVEN"], found["SET"]) == ("kf-given-word", "x")
    assert not {"WITHHELD", "HOME", "KEYFERRY_PROC"} & found.keys()
    assert "kf-given-word" not in repr(vars(providers.providers[0]))
    keyferry.load_providers(node.config, node.bin_dir).lookup(IMAGE_OF_PLUGIN)
    assert environment(node)["KEYFERRY_PROC"] == os.environ["KEYFERRY_PROC"]


@root
def test_a_container_cannot_tell_and_says_so(tmp_path: Path) -> None:
    """A namespace of processes, as a container without hostPID has it: the real /proc of one."""
    for name in ("image_manager", "pods"):
        (tmp_path / "root" / name).mkdir(parents=True, mode=0o700)
    (tmp_path / "images.json").write_text('{"images": [{"id": "sha256:x"}]}')
    contained = [need("unshare"), "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*contained, "true"], capture_output=True, check=False).returncode != 0:
        missing("namespaces cannot be made here")
    inside = [*contained, sys.executable, "-m", "keyferry", "records"]
    words = ["prune", "--images", str(tmp_path / "images.json"), "--root", str(tmp_path / "root"), "--yes"]
    env = {**os.environ, "KEYFERRY_PROC": "/proc"}
    done = subprocess.run([*inside, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "cannot tell whether a kubelet uses the root" in done.stderr
    assert "--no-kubelet" in done.stderr
    told = subprocess.run(
        [*inside, *words, "--no-kubelet"], env=env, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr


@pytest.mark.usefixtures("processes")
def test_without_a_kubelet_nothing_is_said(tmp_path: Path) -> None:
    plant(tmp_path)
    who = run_in_process("records", "who", IMAGE, "--root", str(tmp_path))
    assert "under NeverVerifyPreloadedImages:" in who.stdout
    assert who.stderr == ""


@pytest.mark.parametrize("endpoint", ["unix:///nonexistent/x.sock", "tcp://127.0.0.1:1"])
def test_a_runtime_that_cannot_be_used_is_looked_for(processes: Processes, endpoint: str) -> None:
    """A socket that is not there, or an address that is none: in the usual places, where there is none either."""
    processes.write(17, "kubelet", f"--container-runtime-endpoint={endpoint}")
    done = run_in_process("pull", IMAGE, "--cri", "auto")
    assert done.returncode == 3
    assert "container runtime unix" not in done.stderr
    assert "no container runtime" in done.stderr


def test_the_image_service_is_the_runtime_to_pull_into(processes: Processes, tmp_path: Path) -> None:
    """Where a kubelet has one apart from the other."""
    for name in ("one", "two"):
        (tmp_path / name).touch()
    flags = f"--container-runtime-endpoint={tmp_path / 'one'}", f"--image-service-endpoint={tmp_path / 'two'}"
    processes.write(17, "kubelet", *flags)
    done = run_in_process("pull", IMAGE, "--cri", "auto")
    assert f"container runtime {tmp_path / 'two'} (flags of the kubelet, process 17)\n" in done.stderr


def test_a_list_on_the_command_line_replaces_the_kubelets(processes: Processes, tmp_path: Path) -> None:
    """The policy may stay its own; a policy that is given takes nothing of it, nor does another root."""
    allowlisted = "NeverVerifyAllowlistedImages"
    config = write_config(
        tmp_path / "kubelet.yaml",
        imagePullCredentialsVerificationPolicy=allowlisted,
        preloadedImagesVerificationAllowlist=["reg.example/*"],
    )
    processes.write(17, "kubelet", f"--config={config}", f"--root-dir={tmp_path}")
    plant(tmp_path)

    def who(*words: str) -> str:
        return run_in_process("records", "who", IMAGE, *words).stdout

    listed, policy = f"a pod without credentials, under {allowlisted}:", ("--policy", allowlisted)
    for words, is_unlisted in (((), False), (("--allow", "our.example/*"), True), (policy, True)):
        said = who(*words)
        assert listed in said
        assert ("no pattern of the allowlist matches the image" in said) is is_unlisted, words
    refused = run_in_process("records", "who", IMAGE, "--policy", "AlwaysVerify", "--allow", "our.example/*")
    assert (refused.returncode, "takes no allowlist" in refused.stderr) == (2, True)
