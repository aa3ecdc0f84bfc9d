"""``keyferry get`` and ``keyferry explain`` as a user types them, with real plugins."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from support.commands import Node, plain_pod, run_in_process

IMAGE = "reg.io/team/app:v1"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path).add("one", ["reg.io"])


def secret_file(folder: Path, name: str, username: str = "") -> list[str]:
    """Return the option for a pull secret, whose user is called like it unless told otherwise."""
    config = json.dumps({"auths": {"reg.io": {"username": username or name, "password": "s-word"}}})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(secret))
    return ["--secret", str(path)]


def pod_file(folder: Path, *secrets: str) -> Path:
    path = folder / "pod.yaml"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "team", "uid": "pod-uid"},
        "spec": {"serviceAccountName": "deployer", "imagePullSecrets": [{"name": name} for name in secrets]},
    }
    path.write_text(yaml.safe_dump(pod))
    return path


def find_users(*words: str) -> tuple[list[str], str]:
    """Return the users of the credentials in trial order, and what is noted."""
    done = run_in_process("get", IMAGE, "-o", "json", *words)
    return [each["username"] for each in json.loads(done.stdout)["credentials"]], done.stderr


def test_a_table_masks_the_password(node: Node) -> None:
    done = run_in_process("get", IMAGE, *node.options())
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["USERNAME", "PASSWORD", "KEY", "SOURCE"]
    assert done.stdout.splitlines()[1].split() == ["user", "********", "reg.io", "provider", "one"]
    assert "pass-word" not in done.stdout + done.stderr


def test_the_plugin_is_asked_as_the_kubelet_asks(node: Node) -> None:
    run_in_process("get", IMAGE, *node.options())
    assert node.request("one") == (
        '{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"reg.io/team/app"}\n'
    )


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "dockerconfig", "env"])
def test_every_format_masks_unless_told_to_reveal(node: Node, output: str) -> None:
    masked = run_in_process("get", IMAGE, "-o", output, *node.options())
    encoded = base64.b64encode(b"user:pass-word").decode()
    assert masked.returncode == 0
    assert "pass-word" not in masked.stdout
    assert encoded not in masked.stdout
    revealed = run_in_process("get", IMAGE, "-o", output, "--reveal", *node.options())
    assert "pass-word" in revealed.stdout or encoded in revealed.stdout


def test_json_and_yaml_say_the_same_with_stable_fields(node: Node) -> None:
    as_json = json.loads(run_in_process("get", IMAGE, "-o", "json", *node.options()).stdout)
    as_yaml = yaml.safe_load(run_in_process("get", IMAGE, "-o", "yaml", *node.options()).stdout)
    assert as_json == as_yaml
    assert as_json["apiVersion"] == "keyferry.dev/v1alpha1"
    assert as_json["kind"] == "ImageCredentials"
    assert as_json["name"] == "reg.io/team/app"
    assert as_json["credentials"][0]["source"] == {"kind": "provider", "name": "one"}


def test_a_dockerconfig_is_what_docker_clients_read(node: Node) -> None:
    text = run_in_process("get", IMAGE, "-o", "dockerconfig", "--reveal", *node.options()).stdout
    auth = json.loads(text)["auths"]["reg.io"]["auth"]
    assert base64.b64decode(auth) == b"user:pass-word"


def test_a_dockerconfig_for_docker_hub_uses_its_old_key(tmp_path: Path) -> None:
    node = Node(tmp_path).add("hub", ["docker.io"], '{"docker.io": {"username": "u", "password": "p"}}')
    text = run_in_process("get", "busybox", "-o", "dockerconfig", *node.options()).stdout
    assert list(json.loads(text)["auths"]) == ["https://index.docker.io/v1/"]


def test_env_lines_can_be_evaluated_by_a_shell_and_nothing_in_them_runs(tmp_path: Path) -> None:
    auth = json.dumps({"reg.io": {"username": "$(touch pwned)", "password": "a'b\"`touch pwned`;c"}})
    node = Node(tmp_path).add("one", ["reg.io"], auth)
    lines = run_in_process("get", IMAGE, "-o", "env", "--reveal", *node.options()).stdout
    script = lines + '\nprintf %s "$REGISTRY_USERNAME|$REGISTRY_PASSWORD"'
    shell = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shell.stdout == "$(touch pwned)|a'b\"`touch pwned`;c"
    assert not (tmp_path / "pwned").exists()


def test_no_credentials_is_exit_code_1_with_the_next_command(node: Node, tmp_path: Path) -> None:
    done = run_in_process("get", "other.io/app", *plain_pod(tmp_path), *node.options())
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no credentials for other.io/app; a kubelet would pull anonymously" in done.stderr
    assert "keyferry explain other.io/app" in done.stderr


@pytest.mark.parametrize("output", ["table", "json", "yaml", "env"])
def test_without_the_pod_no_credentials_is_not_a_no(node: Node, output: str) -> None:
    """Its pull secrets may have one: exit code 6, in every format, and the option that would tell."""
    done = run_in_process("get", "other.io/app", "-o", output, *node.options())
    assert done.returncode == 6
    assert "the pod was not given" in done.stderr
    assert "add -f FILE with the pod, or explain pod/NAME" in done.stderr
    assert "anonymously" not in done.stderr
    if output in ("json", "yaml"):
        document = yaml.safe_load(done.stdout)
        assert document["outcome"] == "unknown"
        assert [each["input"] for each in document["missing"]] == ["pod"]


def test_with_a_credential_what_is_missing_is_a_note(node: Node, tmp_path: Path) -> None:
    """Exit code 0; a secret that the pod lists and nobody gave may come before it."""
    done = run_in_process(
        "get", IMAGE, "-f", str(pod_file(tmp_path, "absent")), "-o", "json", *node.options()
    )
    assert done.returncode == 0
    assert "pull secret 'absent', which the pod lists, was not given; add --secret FILE" in done.stderr
    document = json.loads(done.stdout)
    assert document["outcome"] == "credentials"
    assert document["missing"][0]["name"] == "absent"


def test_a_listed_secret_that_was_not_given_is_not_a_no(node: Node, tmp_path: Path) -> None:
    words = ["get", "other.io/app", "-f", str(pod_file(tmp_path, "absent")), *node.options()]
    assert run_in_process(*words).returncode == 6
    assert run_in_process(*words, *secret_file(tmp_path, "absent")).returncode == 1


def test_secrets_come_before_the_nodes_docker_config_and_that_before_providers(
    node: Node, tmp_path: Path
) -> None:
    """In the order in which they are given."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {"reg.io": {"auth": base64.b64encode(b"node:pw").decode()}}}))
    options = ["--docker-config", str(config), *secret_file(tmp_path, "b"), *secret_file(tmp_path, "a")]
    assert find_users(*options, *node.options())[0] == ["b", "a", "node", "user"]


def test_a_pods_own_list_decides_which_secrets_count(node: Node, tmp_path: Path) -> None:
    options = [*secret_file(tmp_path, "a"), *secret_file(tmp_path, "b"), *node.options()]
    users, notes = find_users("-f", str(pod_file(tmp_path, "b", "absent")), *options)
    assert users == ["b", "user"]
    assert "pull secret 'absent', which the pod lists, was not given" in notes
    assert "secret 'a' is given, but the pod does not list it" in notes


def test_a_secret_of_another_namespace_is_not_the_pods(node: Node, tmp_path: Path) -> None:
    """The kubelet reads a pod's secrets in the pod's namespace; one without a namespace is a manifest for it."""
    option, file = secret_file(tmp_path, "b")
    words = ["-f", str(pod_file(tmp_path, "b")), option, file, *node.options()]
    own = Path(file).read_text()
    assert find_users(*words)[0] == ["b", "user"]
    Path(file).write_text(own.replace("namespace: team", "labels: {}"))
    assert find_users(*words)[0] == ["b", "user"]
    Path(file).write_text(own.replace("namespace: team", "namespace: other"))
    users, notes = find_users(*words)
    assert users == ["user"]
    assert "secret 'b' is given, but its namespace is 'other' and the pod's is 'team'" in notes
    assert "pull secret 'b', which the pod lists, was not given" in notes


def test_the_secrets_of_another_account_are_not_the_pods(node: Node, tmp_path: Path) -> None:
    """A pod without secrets of its own gets those of its own account when it is created, and not later."""
    pod = pod_file(tmp_path)
    account = (
        "---\nkind: ServiceAccount\nmetadata: {name: %s, namespace: team}\nimagePullSecrets: [{name: %s}]\n"
    )
    created = pod.read_text() + account % ("other", "a") + account % ("deployer", "b")
    words = ["-f", str(pod), *secret_file(tmp_path, "a"), *secret_file(tmp_path, "b"), *node.options()]
    pod.write_text(created.replace("uid: pod-uid", "labels: {}"))
    assert find_users(*words)[0] == ["b", "user"]
    pod.write_text(created)
    users, notes = find_users(*words)
    assert users == ["user"]
    assert "the service account 'deployer' lists the pull secret 'b', but the pod does not" in notes


def test_a_list_of_pod_secret_and_account_in_one_file_is_understood(node: Node, tmp_path: Path) -> None:
    paths = (str(pod_file(tmp_path, "a")), secret_file(tmp_path, "a", "listed")[1])
    items = [yaml.safe_load(Path(path).read_text()) for path in paths]
    both = tmp_path / "both.json"
    both.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert find_users("-f", str(both), *node.options())[0] == ["listed", "user"]


def test_a_service_account_token_reaches_the_plugin_that_asks_for_it(tmp_path: Path) -> None:
    extra = """\
  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: Token
    requireServiceAccount: true
    optionalServiceAccountAnnotationKeys: [team.example/role]
"""
    node = Node(tmp_path).add("sa", ["reg.io"], extra=extra)
    token = tmp_path / "token"
    token.write_text("tok-en\n")
    account = tmp_path / "sa.yaml"
    account.write_text(
        "apiVersion: v1\nkind: ServiceAccount\n"
        "metadata: {name: deployer, namespace: team, uid: sa-uid, annotations: {team.example/role: puller, other: x}}\n"
        "---\n" + pod_file(tmp_path).read_text()
    )
    done = run_in_process(
        "get", IMAGE, "-f", str(account), "--service-account-token", str(token), "-o", "json", *node.options()
    )
    assert done.returncode == 0, done.stderr
    request = json.loads(node.request("sa"))
    assert request["serviceAccountToken"] == "tok-en"
    assert request["serviceAccountAnnotations"] == {"team.example/role": "puller"}
    source = json.loads(done.stdout)["credentials"][0]["source"]
    assert source["serviceAccount"] == {"namespace": "team", "name": "deployer", "uid": "sa-uid"}
    assert "tok-en" not in done.stdout + done.stderr


TAKES_TOKENS = """\
  tokenAttributes:
    serviceAccountTokenAudience: a
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [role]
"""
ACCOUNT = """\
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: deployer, namespace: {}, annotations: {{{}}}}}
"""


def token_file(folder: Path) -> list[str]:
    (folder / "token").write_text("tok-en\n")
    return ["--service-account-token", str(folder / "token")]


@pytest.mark.parametrize(
    ("has_pod", "has_token", "account", "options"),
    [
        pytest.param(False, False, "", ["-f FILE with the pod"], id="nothing"),
        pytest.param(
            True, False, "", ["ServiceAccount after the Pod", "--service-account-token FILE"], id="pod"
        ),
        pytest.param(True, True, "", ["ServiceAccount after the Pod"], id="pod and token"),
        pytest.param(
            True, True, ACCOUNT.format("other", "x: y"), ["ServiceAccount after the Pod"], id="a namesake"
        ),
        pytest.param(
            True,
            False,
            ACCOUNT.format("team", "role: r"),
            ["--service-account-token FILE"],
            id="pod and account",
        ),
    ],
)
def test_a_provider_that_takes_tokens_is_unknown_without_its_inputs(
    tmp_path: Path, *, has_pod: bool, has_token: bool, account: str, options: list[str]
) -> None:
    """Neither skipped nor failed: in words, in JSON and in the exit code, with the options that would tell."""
    node = Node(tmp_path).add("sa", ["reg.io"], extra=TAKES_TOKENS)
    pod = pod_file(tmp_path)
    pod.write_text(pod.read_text() + account)
    words = [*(["-f", str(pod)] if has_pod else []), *(token_file(tmp_path) if has_token else [])]
    for command in ("get", "explain"):
        done = run_in_process(command, IMAGE, *words, *node.options())
        assert done.returncode == 6, done.stdout + done.stderr
        for wrong in ("the pod has none", "failed", "lacks the annotation", "anonymous"):
            assert wrong not in done.stdout + done.stderr
        for option in options:
            assert option in done.stdout + done.stderr
    assert done.stdout.startswith("? cannot tell whether the kubelet has a credential: ")
    whole = run_in_process("explain", IMAGE, *words, "-o", "wide", *node.options())
    assert "cannot tell what it returns, the plugin was not run" in whole.stdout
    document = json.loads(run_in_process("explain", IMAGE, *words, "-o", "json", *node.options()).stdout)
    assert document["decision"]["outcome"] == "unknown"
    assert document["failures"] == []
    assert len(document["missing"]) == len(options)
    assert not (node.bin_dir / "sa.runs").exists()


def test_with_everything_given_a_provider_that_takes_tokens_gives_sure_answers(tmp_path: Path) -> None:
    """An account that lacks the annotation is skipped, token or not; one that has it is asked for."""
    node = Node(tmp_path).add("sa", ["reg.io"], extra=TAKES_TOKENS)
    pod = pod_file(tmp_path)
    plain = pod.read_text()
    pod.write_text(plain + ACCOUNT.format("team", "x: y"))
    for token in ([], token_file(tmp_path)):
        done = run_in_process("explain", IMAGE, "-f", str(pod), *token, *node.options())
        assert done.returncode == 1
        assert (
            "skipped: the service account lacks the annotation 'role', which the provider requires"
            in done.stdout
        )
    pod.write_text(plain + ACCOUNT.format("team", "role: r"))
    done = run_in_process("get", IMAGE, "-f", str(pod), *token, *node.options())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plugin_that_is_asked_without_the_pods_account_says_so(tmp_path: Path) -> None:
    """Where an account is not required it runs for nobody, as for such a pod; a real pod may get another answer."""
    extra = TAKES_TOKENS.replace("requireServiceAccount: true", "requireServiceAccount: false")
    node = Node(tmp_path).add("sa", ["reg.io"], extra=extra.replace("required", "optional"))
    done = run_in_process("explain", IMAGE, *node.options())
    assert done.returncode == 6
    assert done.stdout.startswith(
        "? a credential is found: user 'user' of provider sa; the kubelet may get another in its place\n"
    )
    wide = run_in_process("explain", IMAGE, "-o", "wide", *node.options()).stdout
    assert "the kubelet may get another response: the pod was not given" in wide
    assert "no anonymous attempt" not in wide


def test_explain_tells_how_a_credential_was_found(node: Node) -> None:
    done = run_in_process("explain", IMAGE, "-o", "wide", *node.options())
    for part in ("pattern 'reg.io' matches the image", "cached by registry", "no anonymous attempt"):
        assert part in done.stdout
    assert "pass-word" not in done.stdout + done.stderr


def test_explain_points_at_the_trap(node: Node, tmp_path: Path) -> None:
    done = run_in_process("explain", "reg.io:5000/app", *plain_pod(tmp_path), *node.options())
    assert done.returncode == 1
    assert "pattern 'reg.io' of provider 'one' nearly matches: it has no port" in done.stdout
    assert '\n    - "reg.io:5000"\n' in done.stdout
    words = ["explain", "reg.io:5000/app", *plain_pod(tmp_path), *node.options()]
    for option in (["-o", "wide"], ["--all-patterns"]):
        wide = run_in_process(*words, *option).stdout
        assert (
            "'reg.io': the pattern has no port and the image has port 5000: a pattern without a port" in wide
        )
        assert "the kubelet makes one anonymous attempt" in wide


def test_explain_as_json_carries_reasons_and_traps(node: Node, tmp_path: Path) -> None:
    words = ["explain", "reg.io:5000/app", "-o", "json", *node.options()]
    assert json.loads(run_in_process(*words).stdout)["decision"]["outcome"] == "unknown"
    document = json.loads(run_in_process(*words, *plain_pod(tmp_path)).stdout)
    assert document["decision"]["outcome"] == "anonymous"
    assert [trap["outcome"] for trap in document["traps"]] == ["port"]
    assert {reason["stage"] for reason in document["reasons"]} == {"image", "match"}


def test_config_and_bin_dir_come_from_the_environment_too_or_by_the_kubelets_own_flags(node: Node) -> None:
    env = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    named = run_in_process("explain", IMAGE, "-o", "wide", cwd=None, **env)
    assert (named.returncode, "(KEYFERRY_CONFIG)" in named.stdout) == (0, True)
    start = "--image-credential-provider"
    flags = (f"{start}-config={node.config}", f"{start}-bin-dir={node.bin_dir}")
    assert run_in_process("get", IMAGE, *flags).returncode == 0


def test_withheld_variables_do_not_reach_the_plugin(tmp_path: Path) -> None:
    node = Node(tmp_path).add("one", ["reg.io"], before='env > "$0.env"')
    run_in_process(
        "get", IMAGE, "--withhold-env", "SECRET_THING", *node.options(), SECRET_THING="x", OTHER_THING="y"
    )
    environment = Path(f"{node.bin_dir / 'one'}.env").read_text()
    assert "OTHER_THING=y" in environment
    assert "SECRET_THING" not in environment
