"""``keyferry plugin new --preset`` and ``keyferry plugin install --federation-config``: from nothing to a login."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.commands import run_in_process
from support.fake_cloud import Received, Reply
from support.federation import (
    AUDIENCE,
    EXAMPLES,
    GITHUB,
    GITHUB_HOST,
    account_token,
    example_federation,
    federation,
    github_token,
)
from support.plugins import PATIENCE_SECONDS
from support.sdk_plugins import request_bytes

NAME = "hub"
GITLAB = "https://gitlab.example.com"


def words_of(preset: str, *instead: str) -> Iterator[str]:
    """Yield the options for the example of a preset; those in *instead* take the place of its own."""
    example = EXAMPLES[preset]
    yield from ("--preset", preset, "--registry", example.registry)
    for name, value in example.params.items():
        if isinstance(value, dict):
            yield from ("--param-env", f"{name}={value['env']}")
        else:
            yield from ("--param", f"{name}={value}")
    for name, value in example.subject.items():
        if f"--{name}" not in instead:
            yield from (f"--{name}", str(value))
    yield from instead


def new(folder: Path, preset: str, *more: str, name: str = NAME) -> Path:
    """Write the files of a provider, and move its config's path into *folder*."""
    done = run_in_process("plugin", "new", name, *words_of(preset), *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "next: cd" in done.stderr
    made = folder / name
    assert sorted(done.stdout.split()) == sorted(f"{name}/{path.name}" for path in made.iterdir())
    provider = made / "provider.yaml"
    if not (made / "federation.yaml").exists():
        return made  # for jobs: the arguments are enough
    assert f"--config=/etc/keyferry/{name}/federation.json" in provider.read_text()
    provider.write_text(provider.read_text().replace("/etc/keyferry", str(folder / "etc")))
    return made


# Docker Hub trusts no cluster: its preset is for jobs.
@pytest.mark.parametrize("preset", [name for name in EXAMPLES if name != "dockerhub"])
def test_a_new_provider_is_clean_and_logs_in(preset: str, tmp_path: Path) -> None:
    """Both configs have no findings; installed, the plugin gets the login from a server that checks every request."""
    made = new(tmp_path, preset)
    done = run_in_process("lint", "provider.yaml", "federation.yaml", cwd=made)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    options = ["--federation-config", "federation.yaml", "--config", "provider.yaml"]
    done = run_in_process(
        "plugin", "install", "federate", "--as", NAME, "--bin-dir", str(bin_dir), *options, cwd=made
    )
    target = tmp_path / "etc" / NAME / "federation.json"
    assert (done.returncode, done.stdout) == (0, f"{bin_dir}/{NAME}\n{target}\n"), done.stderr
    example = EXAMPLES[preset]
    (tmp_path / "world").mkdir()
    with example_federation(tmp_path / "world", preset) as world:
        answer = subprocess.run(
            [bin_dir / NAME, f"--config={target}"],
            input=request_bytes(f"{example.registry}/team/app", serviceAccountToken=account_token()),
            env={"PATH": os.environ["PATH"], **world.env},
            capture_output=True, check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    auth = json.loads(answer.stdout)["auth"]
    assert auth[example.registry]["username"] == example.username


def test_rbac_and_steps(tmp_path: Path) -> None:
    """The audience of the token is the one that kubelets may request."""
    made = new(tmp_path, "quay")
    role, _ = yaml.safe_load_all((made / "rbac.yaml").read_text())
    provider = yaml.safe_load((made / "provider.yaml").read_text())["providers"][0]
    assert role["rules"][0]["resources"] == [provider["tokenAttributes"]["serviceAccountTokenAudience"]]
    steps = (made / "README.md").read_text()
    for step in (
        "kubectl apply -f rbac.yaml",
        "keyferry lint",
        "keyferry plugin install",
        "keyferry plugin try",
    ):
        assert step in steps
    assert "{{" not in steps


def test_the_kubelet_is_told_what_the_rule_needs(tmp_path: Path) -> None:
    """The annotation of a parameter is a required one, and a token that is passed on is cached for itself."""
    words = [
        "--preset",
        "quay",
        "--registry",
        "quay.example.com",
        "--issuer",
        "https://kubernetes.example.com",
    ]
    words += ["--param-annotation", "robot=quay.io/robot=org\\+[a-z]+"]
    assert run_in_process("plugin", "new", NAME, *words, cwd=tmp_path).returncode == 0
    provider = yaml.safe_load((tmp_path / NAME / "provider.yaml").read_text())["providers"][0]
    assert provider["tokenAttributes"] == {
        "serviceAccountTokenAudience": "quay.example.com", "cacheType": "ServiceAccount",
        "requireServiceAccount": True, "requiredServiceAccountAnnotationKeys": ["quay.io/robot"],
    }  # fmt: skip
    made = new(tmp_path, "passthrough", name="zot")
    provider = yaml.safe_load((made / "provider.yaml").read_text())["providers"][0]
    assert provider["tokenAttributes"]["cacheType"] == "Token"


def commands_of(text: str) -> str:
    """The commands of a README: the indented lines that a shell runs."""
    first = ("keyferry ", "mkdir ", "export ")
    lines = [line.strip() for line in text.splitlines() if line.startswith(" " * 7)]
    return "\n".join(line for line in lines if line.startswith(first))


JOBS: dict[str, tuple[str, list[str]]] = {
    "dockerhub": ("dockerhub", []),
    "github": ("jfrog", ["--subject-from", "github", "--issuer", GITHUB]),
    "gitlab": ("jfrog", ["--subject-from", "env", "--subject-variable", "REGISTRY_ID_TOKEN", "--issuer", GITLAB]),
}  # fmt: skip


# The other one gets its token as the first does, and its login as the second.
@pytest.mark.parametrize("case", ["dockerhub", "gitlab"])
def test_the_steps_for_a_job_give_docker_a_login(case: str, tmp_path: Path) -> None:
    """The commands of the README, as a job runs them; then the helper that docker runs has the login."""
    preset, words = JOBS[case]
    example = EXAMPLES[preset]
    made = tmp_path / NAME
    done = run_in_process("plugin", "new", NAME, *words_of(preset, *words), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"next: cd {NAME} && keyferry lint provider.yaml; README.md has the steps\n")
    assert sorted(path.name for path in made.iterdir()) == ["README.md", "provider.yaml"]
    commands = commands_of((made / "README.md").read_text()).replace("/IMAGE", "/team/app")
    commands += f"\nprintf %s {example.registry} | docker-credential-keyferry get"
    (tmp_path / "world").mkdir()
    tokens = {"github": github_token(aud=AUDIENCE), "gitlab": account_token(iss=GITLAB)}

    def handle(received: Received) -> Reply:
        if preset == "dockerhub":
            return example.handler(received)
        if received.headers["host"] == GITHUB_HOST:
            return Reply(document={"value": tokens[case]})
        assert received.json["subject_token"] == tokens[case]
        return Reply(document={"access_token": "opaque-1", "expires_in": 60, "username": example.username})

    with federation(tmp_path / "world", handle, example.registry, *example.hosts, GITHUB_HOST) as world:
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
            "REGISTRY_ID_TOKEN": tokens["gitlab"], **world.env,
        }  # fmt: skip
        job = subprocess.run(
            ["sh", "-ec", commands], cwd=made, env=env, capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert world.server.problems == []
    assert job.returncode == 0, job.stderr
    assert json.loads(job.stdout.splitlines()[-1])["Username"] == example.username
    docker = json.loads((tmp_path / ".docker" / "config.json").read_text())
    assert set(docker["credHelpers"].values()) == {"keyferry"}


def test_the_steps_for_a_job_are_not_those_of_a_node(tmp_path: Path) -> None:
    """No kubelet has a job's token, so the README names no command for one; it says how the job gets its token."""
    for case, (preset, words) in JOBS.items():
        done = run_in_process("plugin", "new", case, *words_of(preset, *words), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / case / "README.md").read_text()
        assert "{{" not in text
        assert not any(
            word in text for word in ("sudo", "/etc/", "rbac", "Restart", "plugin try", "NAMESPACE")
        )
        token = yaml.safe_load(text.partition("2. Give")[2].partition("\n\n")[2].partition("\n\n3.")[0])
        audience = "https://identity.docker.com" if case == "dockerhub" else AUDIENCE
        assert f"for the audience `{audience}`" in text
        assert token == (
            {"id_tokens": {"REGISTRY_ID_TOKEN": {"aud": AUDIENCE}}}
            if case == "gitlab"
            else {"permissions": {"contents": "read", "id-token": "write"}}
        )
        provider = yaml.safe_load((tmp_path / case / "provider.yaml").read_text())["providers"][0]
        assert "tokenAttributes" not in provider


def test_a_token_in_a_file_is_one_that_a_node_can_have(tmp_path: Path) -> None:
    """Such as that of SPIRE: the steps are those of a node, without the permission that kubelets need for tokens."""
    made = new(tmp_path, "jfrog", "--subject-from", "file", "--subject-file", "/run/spire/token")
    assert not (made / "rbac.yaml").exists()
    assert "tokenAttributes" not in (made / "provider.yaml").read_text()
    steps = (made / "README.md").read_text()
    assert "kubelets need no further permission" in steps
    assert "sudo keyferry plugin install" in steps


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--preset", "jfrgo"], "did you mean 'jfrog'?"),
        (["--preset", "jfrog"], "the preset needs 'provider_name'"),
        (["--preset", "jfrog", "--kind", "cluster"], "--preset is for --kind image"),
        (["--preset", "jfrog", "--param", "secret-without-equals"], "a value has no '='"),
        (["--registry", "quay.io"], "--registry needs --preset"),
        (
            ["--preset", "rfc8693", "--registry", "r.example", "--issuer", "https://k", "--param",
             "host=dex.example", "--param", "client_secret=hunter2"],
            "a secret is read from a file or a variable",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_told(words: list[str], text: str, tmp_path: Path) -> None:
    """Nothing is written, and no value is shown that may be a secret."""
    done = run_in_process("plugin", "new", NAME, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert "hunter2" not in done.stderr
    assert "secret-without-equals" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def install(made: Path, *words: str, program: str = NAME) -> subprocess.CompletedProcess[str]:
    """Install the plugin with the config of a provider."""
    options = ["--federation-config", "federation.yaml", "--config", "provider.yaml", "--bin-dir", "."]
    return run_in_process("plugin", "install", "federate", "--as", program, *options, *words, cwd=made)


def test_the_written_config_is_closed_to_others(tmp_path: Path) -> None:
    """With any umask; it replaces an older one in one step, and the plugin accepts it."""
    made = new(tmp_path, "quay")
    target = tmp_path / "etc" / NAME / "federation.json"
    before = os.umask(0)
    try:
        assert install(made).returncode == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert stat.S_IMODE(target.parent.stat().st_mode) & 0o022 == 0
    assert run_in_process("lint", str(target)).returncode == 0
    first = target.stat().st_ino
    again = install(made)
    assert again.returncode == 0
    assert f"{target} is up to date" in again.stderr
    assert target.stat().st_ino == first
    change(made)
    assert install(made).returncode == 0
    assert target.stat().st_ino != first
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert sorted(path.name for path in target.parent.iterdir()) == [
        "federation.json",
        "federation.json.sha256",
    ]
    checked = ["sha256sum", "--check", "--strict", "federation.json.sha256"]
    assert subprocess.run(checked, cwd=target.parent, capture_output=True, check=False).returncode == 0


def change(made: Path) -> None:
    """Change the config that is to be installed."""
    text = (made / "federation.yaml").read_text()
    (made / "federation.yaml").write_text(text.replace("robot: org+robot", "robot: org+other"))


def test_a_change_of_the_config_is_shown_without_secrets(tmp_path: Path) -> None:
    """As a diff on standard error, with the parameters that are no secrets; the config is then the new one."""
    made = new(tmp_path, "quay")
    target = tmp_path / "etc" / NAME / "federation.json"
    install(made)
    current = json.loads(target.read_text())
    older = json.loads(target.read_text())
    older["rules"][0]["registries"] = ["old.example.com"]
    older["rules"][0]["params"] |= {"robot": "org+old", "own": "hunter2-hunter2", "host": "jo:hunter2@h"}
    target.write_text(json.dumps(older, indent=2))
    done = install(made, "--force")
    assert done.returncode == 0
    assert f"--- a/{target}" in done.stderr
    assert '-        "old.example.com"' in done.stderr
    assert '-        "robot": "org+old",' in done.stderr
    assert '+        "robot": "org+robot"' in done.stderr
    assert '"own": ********' in done.stderr
    assert "hunter2" not in done.stderr
    assert json.loads(target.read_text()) == current


@pytest.mark.parametrize("who", ["written by hand", "changed since"])
def test_a_config_of_somebody_else_is_replaced_only_on_request(who: str, tmp_path: Path) -> None:
    """It may have rules that are nowhere else; nothing is written then, and --force replaces it."""
    made = new(tmp_path, "quay")
    target = tmp_path / "etc" / NAME / "federation.json"
    assert install(made).returncode == 0
    ours = target.read_bytes()
    theirs = ours.replace(b"org+robot", b"org+theirs")
    if who == "written by hand":
        target.with_name("federation.json.sha256").unlink()
    target.write_bytes(theirs)
    (made / NAME).unlink()
    done = install(made)
    assert (done.returncode, done.stdout, target.read_bytes()) == (3, "", theirs)
    assert (
        f"'{target}' is not replaced: keyferry has not written it, or somebody has changed it" in done.stderr
    )
    assert "--force" in done.stderr
    assert not (made / NAME).exists()
    forced = install(made, "--force")
    assert (forced.returncode, target.read_bytes()) == (0, ours), forced.stderr
    change(made)
    assert install(made).returncode == 0


def test_a_config_that_is_the_same_is_nobodys_loss(tmp_path: Path) -> None:
    """Whoever wrote it: it stays as it is."""
    made = new(tmp_path, "quay")
    target = tmp_path / "etc" / NAME / "federation.json"
    assert install(made).returncode == 0
    target.with_name("federation.json.sha256").unlink()
    done = install(made)
    assert done.returncode == 0
    assert f"{target} is up to date" in done.stderr


@pytest.mark.parametrize("kind", ["document", "text", "folder", "dangling link"])
def test_a_file_of_somebody_else_is_never_replaced_by_a_config(kind: str, tmp_path: Path) -> None:
    """Not with --force either, which is for configs of somebody else; the program is not written then."""
    made = new(tmp_path, "quay")
    target = tmp_path / "etc" / NAME / "federation.json"
    target.parent.mkdir(parents=True)
    if kind == "folder":
        target.mkdir()
    elif kind == "dangling link":
        target.symlink_to("nowhere")
    else:
        target.write_text({"document": '{"kind": "Config"}', "text": "mine"}[kind])
    done = install(made, "--force")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"'{target}' is not replaced: it is no FederationConfig" in done.stderr
    assert not (made / NAME).exists()


def test_a_config_with_errors_is_not_installed(tmp_path: Path) -> None:
    """Neither is the program, and every problem is told with its place."""
    made = new(tmp_path, "quay")
    text = (made / "federation.yaml").read_text()
    (made / "federation.yaml").write_text(text.replace("preset: quay", "preset: qay\n  extra: 1"))
    done = install(made)
    assert done.returncode == 3
    assert "federation.yaml:6:3: rules[0].preset: there is no preset 'qay'" in done.stderr
    assert "rules[0].extra: unknown field" in done.stderr
    assert not (made / NAME).exists()
    assert not (tmp_path / "etc").exists()


def test_no_provider_names_the_file(tmp_path: Path) -> None:
    """There is no place to write it to."""
    done = install(new(tmp_path, "quay"), program="other")
    assert done.returncode == 3
    assert "has no provider 'other' whose args have --config with an absolute path" in done.stderr


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    """And installed all the same: lint is where a person decides."""
    made = new(tmp_path, "passthrough")
    provider = made / "provider.yaml"
    provider.write_text(provider.read_text().replace("cacheType: Token", "cacheType: ServiceAccount"))
    done = install(made)
    assert done.returncode == 0
    assert "KF670" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ecr", "--federation-config", "x"], "for the plugin 'federate' alone"),
        (["federate", "--config", "x"], "--config is for --federation-config"),
    ],
)
def test_options_that_do_not_fit(words: list[str], text: str, tmp_path: Path) -> None:
    """Wrong usage, and nothing is installed."""
    done = run_in_process("plugin", "install", *words, "--bin-dir", str(tmp_path))
    assert done.returncode == 2
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The message names it."""
    options = ["--federation-config", "nope.yaml", "--config", "provider.yaml", "--bin-dir", str(tmp_path)]
    done = run_in_process("plugin", "install", "federate", *options, cwd=tmp_path)
    assert done.returncode == 3
    assert "'nope.yaml' cannot be read" in done.stderr
