"""``keyferry plugin trace``: one exchange without its secrets, and a stand-in that repeats it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.commands import Node, run_in_process
from support.kit_plugins import (
    IMAGE_NAME,
    PASSWORD,
    TOKEN,
    Broken,
    answering,
    cluster,
    credential,
    jwt,
    main,
    response,
    say,
    write_plugin,
)
from support.plugins import provider_entry, write_config, write_executable


def trace(path: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the trace, and all that was printed."""
    done = run_in_process("plugin", "trace", str(path), *words)
    return done.returncode, json.loads(done.stdout), done.stdout + done.stderr


def replayed(file: Path) -> subprocess.CompletedProcess[str]:
    """What the stand-in answers."""
    return run_in_process("plugin", "trace", "--replay", str(file), stdin="{}")


def test_a_good_exchange_is_recorded_without_its_secrets(tmp_path: Path) -> None:
    """Request, answer with placeholders and shapes, verdict; variables by name only."""
    token = tmp_path / "token"
    token.write_text("s3cret-service-account-token")
    answer = response(auth={"registry.example": ("user", jwt(3600))})
    path = write_plugin(tmp_path, main(answer))
    words = (
        "--service-account-token-file",
        str(token),
        "--env",
        "KEY=s3cret-value",
        "--arg=--password=s3cret-arg",
    )
    code, document, printed = trace(path, f"{IMAGE_NAME}:v1", *words)
    assert code == 0
    assert document["request"] == {
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": IMAGE_NAME,
        "serviceAccountToken": "********",
    }
    assert "KEY" in str(document["environmentNames"])
    stdout = document["stdout"]
    assert stdout["document"]["auth"] == {
        "registry.example": {"username": "user", "password": "keyferry-placeholder"}
    }
    assert stdout["shapes"]["auth.registry.example.password"].startswith(
        "JWT, up to 128 characters, ends in 3"
    )
    assert document["verdict"] == {"accepted": True, "text": "the kubelet accepts this response", "log": ""}
    assert "s3cret" not in printed
    assert jwt(3600)[:20] not in printed


@pytest.mark.parametrize(
    "key",
    [
        "s3cret-alone",
        "user:s3cret-word@registry.example",
        "s3cret@registry.example",
        "registry.example:s3cret",
    ],
)
def test_a_secret_in_a_key_is_not_recorded(tmp_path: Path, key: str) -> None:
    """What stands where a registry's name belongs, and is none, is masked."""
    path = write_plugin(tmp_path, main(response(auth={key: ("user", PASSWORD)})))
    _, document, printed = trace(path, IMAGE_NAME)
    assert list(document["stdout"]["document"]["auth"]) == ["********"]
    assert "s3cret" not in printed


def test_a_failure_is_recorded_with_what_the_kubelet_would_log(tmp_path: Path) -> None:
    """Its log has what the plugin said, without the secret in it."""
    failing = f'echo "login failed for user:{PASSWORD} with {PASSWORD}" >&2; {say(response())}; exit 7'
    code, document, printed = trace(write_plugin(tmp_path, Broken({"main": failing})), IMAGE_NAME)
    assert code == 1
    assert (document["status"], document["ending"]) == (7, "exited")
    verdict = document["verdict"]
    assert not verdict["accepted"]
    assert verdict["log"].startswith(
        f"error execing credential provider plugin plugin for image {IMAGE_NAME}: exit status 7: login failed"
    )
    assert PASSWORD not in printed


@pytest.mark.parametrize(
    ("shell", "text", "log"),
    [
        (
            f"echo banner with {PASSWORD}; {say(response())}",
            "not one JSON object",
            "error reading GVK from response",
        ),
        (
            say(response(secret=PASSWORD)),
            "unknown or repeated field",
            "error decoding credential provider plugin",
        ),
        (
            say(response(apiVersion="v1")),
            "the apiVersion of its response is",
            "apiVersion from credential plugin response",
        ),
        (
            say(response("Host")),
            "cacheKeyType is not Image, Registry or Global",
            "did not return a valid cacheKeyType: Host",
        ),
    ],
)
def test_what_the_kubelet_refuses_is_told_and_hidden(shell: str, text: str, log: str, tmp_path: Path) -> None:
    """Whatever the shape of the answer, no part of a secret is in the trace."""
    code, document, printed = trace(write_plugin(tmp_path, Broken({"main": shell})), IMAGE_NAME)
    assert code == 1
    verdict = document["verdict"]
    assert text in verdict["text"]
    assert log in verdict["log"]
    assert PASSWORD not in printed


def test_a_cluster_plugin_can_be_recorded_and_replayed(tmp_path: Path) -> None:
    """Its time is moved with the clock, so that the stand-in's answer is as fresh as the plugin's was."""
    path = write_plugin(
        tmp_path, answering({"token": TOKEN, "expirationTimestamp": "2099-01-01T00:00:00.5Z"})
    )
    file = tmp_path / "trace.json"
    done = run_in_process("plugin", "trace", str(path), "--kind", "cluster", "--out", str(file))
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert TOKEN not in file.read_text()
    document = json.loads(file.read_text())
    document["recordedAtSeconds"] -= 10 * 365 * 86400
    file.write_text(json.dumps(document))
    answer = json.loads(replayed(file).stdout)
    assert answer["status"] == {
        "token": "keyferry-placeholder",
        "expirationTimestamp": answer["status"]["expirationTimestamp"],
    }
    assert answer["status"]["expirationTimestamp"].startswith("2108-12-")
    assert answer["status"]["expirationTimestamp"].endswith(".5Z")


def test_a_trace_stands_in_for_its_plugin_in_a_lookup(tmp_path: Path) -> None:
    """With two lines of shell around it, ``get`` finds the same keys, users and order, and no secret."""
    auth = (
        '{"reg.io": {"username": "wide", "password": "s3cret-wide"},'
        ' "reg.io/team": {"username": "narrow", "password": "s3cret-narrow"}}'
    )
    node = Node(tmp_path).add("plugin", ["reg.io"], auth)
    real = run_in_process("get", "reg.io/team/app", "-o", "json", *node.options())
    file = tmp_path / "trace.json"
    plugin = node.bin_dir / "plugin"
    assert (
        run_in_process("plugin", "trace", str(plugin), "reg.io/team/app", "--out", str(file)).returncode == 0
    )
    wrapper = f'#!/bin/sh\nexec "{sys.executable}" -m keyferry plugin trace --replay "{file}"\n'
    write_executable(plugin, wrapper)
    stood_in = run_in_process("get", "reg.io/team/app", "-o", "json", *node.options())
    assert stood_in.returncode == real.returncode == 0
    assert json.loads(stood_in.stdout) == json.loads(real.stdout)
    revealed = run_in_process("get", "reg.io/team/app", "-o", "json", "--reveal", *node.options())
    assert "s3cret" not in revealed.stdout + file.read_text()
    assert "keyferry-placeholder" in revealed.stdout


def test_a_failure_is_replayed_with_its_status_and_message(tmp_path: Path) -> None:
    """A stand-in for a plugin that fails, fails."""
    file = tmp_path / "trace.json"
    path = write_plugin(tmp_path, Broken({"main": 'fail "no metadata service"'}))
    assert run_in_process("plugin", "trace", str(path), IMAGE_NAME, "--out", str(file)).returncode == 1
    done = replayed(file)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "plugin: no metadata service\n")


@pytest.mark.parametrize(
    ("shell", "ending", "log", "status"),
    [
        ("kill -SEGV $$", "exited", "signal: segmentation fault", 139),
        ("sleep 60", "timed out", "context deadline exceeded", 137),
        ("exit 200", "exited", "exit status 200", 200),
    ],
)
def test_a_crash_is_replayed_as_a_shell_would_tell_it(
    shell: str, ending: str, log: str, status: int, tmp_path: Path
) -> None:
    """A signal becomes a status, and a run without end a kill; the trace has the kubelet's words."""
    file = tmp_path / "trace.json"
    path = write_plugin(tmp_path, Broken({"main": shell}))
    limit = ("--timeout", "0.5") if "sleep" in shell else ()
    words = ("plugin", "trace", str(path), IMAGE_NAME, *limit, "--out", str(file))
    assert run_in_process(*words).returncode == 1
    document = json.loads(file.read_text())
    assert (document["ending"], log in document["verdict"]["log"]) == (ending, True)
    assert replayed(file).returncode == status


def test_a_broken_answer_is_replayed_as_broken(tmp_path: Path) -> None:
    """A banner before the answer is still there, and still refused, without one letter of it."""
    file = tmp_path / "trace.json"
    path = write_plugin(tmp_path, Broken({"before": f"echo logged in as {PASSWORD}"}))
    run_in_process("plugin", "trace", str(path), IMAGE_NAME, "--out", str(file))
    done = replayed(file)
    assert done.stdout.startswith('xxxxxx xx xx x0xxxx-xxxxxxxx\n{"kind": "CredentialProviderResponse"')
    assert PASSWORD not in file.read_text()


def test_text_can_be_read_by_people(tmp_path: Path) -> None:
    """The same without brackets."""
    words = ("plugin", "trace", str(write_plugin(tmp_path)), IMAGE_NAME, "-o", "text")
    done = run_in_process(*words, COLUMNS="60")
    assert done.returncode == 0
    assert done.stdout.startswith("verdict:\n  accepted: true\n")
    titles = [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith((" ", "-"))]
    assert (titles[:2], titles[-1]) == (["verdict", "stderr"], "environmentNames")
    names = done.stdout.partition("environmentNames:\n")[2].splitlines()
    assert all(len(line) <= 60 or len(line.split()) == 1 for line in names)
    assert PASSWORD not in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "no plugin is given"),
        (("{plugin}",), 2, "no image is given"),
        (("./missing", "a/b"), 3, "does not exist"),
        (("--replay", "./missing"), 3, "cannot be read"),
        (("--replay", "{plugin}"), 3, "is not a trace"),
        (("--replay", "{other}"), 3, "is not a trace, expected kind PluginTrace"),
        (("{plugin}", "--replay", "{other}"), 2, "cannot be combined with BINARY"),
        (("{plugin}", "registry.example/a", "--out", "{other}"), 3, "cannot be written: file exists"),
    ],
)
def test_wrong_usage_is_told(words: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    """And no file that is there is written over."""
    other = tmp_path / "other.json"
    other.write_text('{"kind": "Pod"}')
    places = {"plugin": write_plugin(tmp_path), "other": other}
    done = run_in_process("plugin", "trace", *(word.format(**places) for word in words), cwd=tmp_path)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert other.read_text() == '{"kind": "Pod"}'


def test_an_answer_that_nests_deeply_is_no_trouble(tmp_path: Path) -> None:
    """A hostile answer becomes a skeleton."""
    nested = tmp_path / "nested"
    nested.write_text('{"a":' * 900 + "1" + "}" * 900)
    path = write_plugin(tmp_path, Broken({"main": f"cat {nested}"}))
    code, document, _ = trace(path, IMAGE_NAME)
    assert code == 1
    assert document["status"] == 0


def test_a_cluster_answer_without_a_kind_is_not_quoted(tmp_path: Path) -> None:
    """client-go quotes the whole document in some of its errors; a trace does not."""
    broken = cluster({"main": say({**credential(), "apiVersion": "client.authentication.k8s.io/v1/x"})})
    done = run_in_process("plugin", "trace", str(write_plugin(tmp_path, broken)), "--kind", "cluster")
    assert done.returncode == 1
    assert TOKEN not in done.stdout + done.stderr
    assert os.path.basename(str(tmp_path)) in done.stdout


def test_a_trace_has_one_version(tmp_path: Path) -> None:
    """The help speaks of one, and a second is refused."""
    path = str(write_plugin(tmp_path))
    words = ("plugin", "trace", path, IMAGE_NAME, "--api-version", "v1", "--api-version", "v1beta1")
    done = run_in_process(*words)
    assert done.returncode == 2
    assert "--api-version is given more than once" in done.stderr
    shown = " ".join(run_in_process("plugin", "trace", "--help").stdout.split())
    assert "the version of the request, such as v1beta1 (default: that of the config, else v1)" in shown


def test_an_acceptance_without_the_token_that_the_kubelet_sends_is_qualified(tmp_path: Path) -> None:
    """By tokenAttributes of its provider, the plugin gets a token from the kubelet."""
    path = write_plugin(tmp_path)
    attributes = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}
    config = write_config(tmp_path / "config.json", [provider_entry(path.name, tokenAttributes=attributes)])
    words = ("plugin", "trace", str(path), IMAGE_NAME, "--config", str(config))
    text = json.loads(run_in_process(*words).stdout)["verdict"]["text"]
    assert text.startswith(
        "the kubelet accepts this response, but to a request without a service account token"
    )
    (tmp_path / "token").write_text("a-service-account-token")
    sent = run_in_process(*words, "--service-account-token-file", str(tmp_path / "token"))
    assert json.loads(sent.stdout)["verdict"]["text"] == "the kubelet accepts this response"
