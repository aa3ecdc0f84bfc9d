"""``keyferry plugin test`` from the shell: formats, exit codes, and never a secret."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.plugin import PluginKind
from support.commands import run_keyferry
from support.kit_broken import IMAGE_PLUGINS, process_plugin
from support.kit_plugins import (
    IMAGE_NAME,
    PASSWORD,
    TOKEN,
    Broken,
    cluster,
    credential,
    response,
    say,
    write_plugin,
)
from support.plugins import provider_entry, write_config, write_executable
from support.terminal import keyferry_on_terminal

QUICK = ("--timeout", "20")


def test_a_clean_plugin_is_exit_code_0(tmp_path: Path) -> None:
    """Only what was not checked stands in the report, by its reason; the summary is on standard error."""
    path = write_plugin(tmp_path)
    done = run_keyferry("plugin", "test", str(path), "--image", f"{IMAGE_NAME}:v1", *QUICK)
    assert done.returncode == 0, done.stdout
    assert "✓" not in done.stdout
    assert "KP101" not in done.stdout
    assert "    KP111     no password contains its expiry\n" in done.stdout
    assert "no failures" in done.stderr


def test_verbose_lists_what_passed(tmp_path: Path) -> None:
    """Every check has a line of its own, with the reason if it was not made."""
    path = write_plugin(tmp_path)
    words = ("plugin", "test", str(path), "--image", IMAGE_NAME, "--only", "KP101,KP111", *QUICK)
    for option in ("-v", "--verbose"):
        done = run_keyferry(*words, option)
        assert done.returncode == 0, done.stdout
        assert "✓ KP101  answers a request for its image with exit status 0\n" in done.stdout
        assert "- KP111  sets a cacheDuration that ends before its credential expires" in done.stdout
        assert "(not checked: no password contains its expiry)\n" in done.stdout
        assert "1 passed, 1 not checked;" in done.stderr


def test_an_error_is_exit_code_1_with_all_there_is_to_know(tmp_path: Path) -> None:
    """Found, expected, why, what to change, and the command that repeats it."""
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP128"])
    done = run_keyferry("plugin", "test", str(path), "--image", IMAGE_NAME, *QUICK)
    assert done.returncode == 1
    start = done.stdout.index("✗ KP128")
    block = done.stdout[start : done.stdout.index("\n\n", start)].splitlines()
    assert [line.split()[0] for line in block if not line.startswith(" " * 14)] == [
        "✗",
        "request",
        "found",
        "expected",
        "repeat",
        "why",
        "change",
    ]
    assert '"image":""' in block[4]
    assert "1 error;" in done.stderr


def test_errors_and_warnings_fail_and_infos_only_when_strict(tmp_path: Path) -> None:
    """What is left out of the report does not count."""
    path = str(write_plugin(tmp_path, IMAGE_PLUGINS["KP108"]))
    words = ("plugin", "test", path, "--image", IMAGE_NAME, "--only", "KP108,KP110", *QUICK)
    assert run_keyferry(*words).returncode == 1
    hidden = run_keyferry(*words, "--severity", "error")
    assert hidden.returncode == 0
    assert "! KP108" not in hidden.stdout
    (tmp_path / "i").mkdir()
    info = (
        "plugin",
        "test",
        str(write_plugin(tmp_path / "i", IMAGE_PLUGINS["KP110"])),
        "--image",
        IMAGE_NAME,
    )
    assert run_keyferry(*info, *QUICK).returncode == 0
    assert run_keyferry(*info, *QUICK, "--strict").returncode == 1
    assert run_keyferry(*info, *QUICK, "--strict", "--severity", "warning").returncode == 0


def test_json_and_junit_hold_the_same_results(tmp_path: Path) -> None:
    """The file beside the table, and the format on standard output."""
    path = str(write_plugin(tmp_path, IMAGE_PLUGINS["KP106"]))
    junit = tmp_path / "report.xml"
    words = ("plugin", "test", path, "--image", IMAGE_NAME, *QUICK)
    done = run_keyferry(*words, "-o", "json", "--junit", str(junit))
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["kind"] == "PluginReport"
    failed = [result["code"] for result in document["results"] if result["status"] == "failed"]
    assert failed == ["KP106"]
    suite = ET.parse(junit).getroot()[0]
    failures = [case.get("name", "") for case in suite if case.find("failure") is not None]
    assert [name.split()[0] for name in failures] == ["KP106"]
    assert len(suite) == len(document["results"])
    shown = run_keyferry(*words, "-o", "junit", "--only", "KP106")
    assert ET.fromstring(shown.stdout)[0].get("failures") == "1"


LEAKY = Broken(
    {
        "failing": f'echo "failed: {PASSWORD} $request" >&2; echo {PASSWORD}; exit 1',
        "before": (
            f'echo {PASSWORD} >"${{TMPDIR:-/dev/null}}/{PASSWORD}" 2>/dev/null; '
            f"echo '{base64.b64encode(f'user:{PASSWORD}'.encode()).decode()}' >&2; "
            f"first && sh -c 'sleep 0.4; :' {PASSWORD} --{PASSWORD}"
        ),
        "main": say(
            response(
                PASSWORD,
                auth={
                    f"user:{PASSWORD}@registry.example": (f"a:{PASSWORD}", f"{PASSWORD}\n"),
                    f"{PASSWORD}/*": (PASSWORD, PASSWORD),
                },
            )
        ),
        "other": f"echo {PASSWORD}; kill -SEGV $$",
    }
)


@pytest.mark.parametrize("output", ["table", "json", "junit"])
def test_a_plugin_that_leaks_everywhere_leaks_nothing_through_the_report(output: str, tmp_path: Path) -> None:
    """Whatever a plugin does with its secret, no format shows it."""
    path = str(write_plugin(tmp_path, LEAKY))
    done = run_keyferry("plugin", "test", path, "--image", IMAGE_NAME, "-o", output, *QUICK)
    assert done.returncode == 1
    for code in ("KP106", "KP120", "KP301", "KP302", "KP303"):
        assert code in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    assert base64.b64encode(PASSWORD.encode()).decode()[:16] not in done.stdout + done.stderr


def test_secrets_of_the_command_line_are_not_shown(tmp_path: Path) -> None:
    """The commands that repeat a check take them from variables of the shell, which are named."""
    path = str(write_plugin(tmp_path, IMAGE_PLUGINS["KP128"]))
    token = tmp_path / "token"
    token.write_text("s3cret-service-account-token\n")
    words = ["plugin", "test", path, "--image", IMAGE_NAME, "--env", "KEY=s3cret-variable", *QUICK]
    words += ["--service-account-token-file", str(token), "--annotation", "a.example/b=c"]
    done = run_keyferry(*words, "--", "--password", "s3cret-argument")
    assert done.returncode == 1
    assert ' | env KEY="$KEY" ' in done.stdout
    assert "*****" not in done.stdout
    note = " ".join(done.stdout.partition("note: set these variables in your shell")[2].split())
    assert note.startswith("before you paste a repeat line: KEY, ARG_2 (in its argument 2)")
    assert "s3cret" not in done.stdout + done.stderr


def test_a_command_that_repeats_a_check_can_be_pasted(tmp_path: Path) -> None:
    """Into a shell that has the variables which the report names."""
    is_given = '[ "$KEY $2" = "s3cret-variable s3cret-argument" ] || exit 3'
    path = write_executable(
        tmp_path / "plugin", f"#!/bin/sh\ncat >/dev/null\n{is_given}\n{say(response())}\n"
    )
    words = ("plugin", "test", str(path), "--image", IMAGE_NAME, "--env", "KEY=s3cret-variable", *QUICK)
    done = run_keyferry(*words, "-o", "json", "--only", "KP126,KP128", "--", "--password", "s3cret-argument")
    results = json.loads(done.stdout)["results"]
    commands = [one["repeat"] for each in results for one in each.get("broken", ())]
    assert len(commands) == 2
    for command in commands:
        known = {"KEY": "s3cret-variable", "ARG_2": "s3cret-argument"}
        pasted = subprocess.run(
            ["sh", "-c", command], env={**os.environ, **known}, capture_output=True, check=False
        )
        assert pasted.returncode == 0


def test_the_report_names_the_plugin_as_it_was_given(tmp_path: Path) -> None:
    """Also where its folder looks like a secret, and its name is the password."""
    folder = tmp_path / "tmp.A8bC3d9Xyz" / PASSWORD
    folder.mkdir(parents=True)
    path = write_plugin(folder, IMAGE_PLUGINS["KP128"])
    done = run_keyferry("plugin", "test", str(path), "--image", IMAGE_NAME, *QUICK)
    assert done.stdout.startswith(f"{path}: image plugin, ")
    assert f" | {path}\n" in done.stdout
    trace = run_keyferry("plugin", "trace", str(path), IMAGE_NAME, "-o", "json")
    assert json.loads(trace.stdout)["command"] == str(path)


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_banner_on_standard_output_is_to_be_fixed_first(kind: PluginKind, tmp_path: Path) -> None:
    """What hides all other results stands alone; nothing of what was printed is shown, but its length."""
    code = "KP102" if kind is PluginKind.IMAGE else "KP202"
    broken = Broken({"start": "echo 'Welcome to 7 of 9'"}, kind=kind)
    path = str(write_plugin(tmp_path, broken))
    words = ["plugin", "test", path, *QUICK]
    words += ["--image", IMAGE_NAME] if kind is PluginKind.IMAGE else ["--kind", "cluster"]
    done = run_keyferry(*words)
    assert done.returncode == 1
    assert f"\n\nfix this first:\n✗ {code}  prints one " in done.stdout
    assert "18 bytes before it\n" in done.stdout
    assert done.stdout.count("✗") == 1
    assert "not checked:" not in done.stdout
    assert re.search(
        r"of the other checks, .* and \d+ were not made, some because of this; -v lists all", done.stdout
    )
    assert "Welcome" not in done.stdout + done.stderr
    verbose = run_keyferry(*words, "-v")
    assert len(re.findall("(?m)^[✗!] ", verbose.stdout)) > 1
    assert verbose.stdout.count(f" {code} ") == 1
    assert json.loads(run_keyferry(*words, "-o", "json").stdout)["fixFirst"] == code


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_an_empty_standard_output_has_its_own_advice(kind: PluginKind, tmp_path: Path) -> None:
    path = tmp_path / "silent"
    path.write_text("#!/bin/sh\ncat > /dev/null\n")
    path.chmod(0o755)
    words = ["--image", IMAGE_NAME] if kind is PluginKind.IMAGE else ["--kind", "cluster"]
    done = run_keyferry("plugin", "test", str(path), *QUICK, *words)
    assert done.returncode == 1
    shown = " ".join(done.stdout.split())
    assert "it is empty" in shown
    assert "rejects it if it is empty" in shown
    assert "write the response to standard output" in shown


def test_arguments_and_variables_reach_the_plugin(tmp_path: Path) -> None:
    """From --arg, --env and after --."""
    check = f'[ "$*/$REGION" = "--one two/eu" ] || fail "got $*/$REGION"; {say(response())}'
    path = str(write_plugin(tmp_path, Broken({"main": check})))
    words = ("plugin", "test", path, "--image", IMAGE_NAME, "--arg=--one", "--env", "REGION=eu", *QUICK)
    done = run_keyferry(*words, "--only", "KP101", "--", "two")
    assert done.returncode == 0, done.stdout


def test_a_provider_config_says_how_the_plugin_is_run(tmp_path: Path) -> None:
    """Arguments, variables, version and images are taken from it."""
    check = f'[ "$*/$REGION" = "--one/eu" ] || fail "got $*/$REGION"; {say(response())}'
    path = write_plugin(tmp_path, Broken({"main": check, "other": check}))
    fields = {
        "args": ["--one"],
        "env": [{"name": "REGION", "value": "eu"}],
        "matchImages": ["*.example", "registry.example"],
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
    }
    config = write_config(tmp_path / "config.json", [provider_entry(path.name, **fields)])
    words = ("plugin", "test", str(path), "--config", str(config), *QUICK)
    done = run_keyferry(*words)
    assert done.returncode == 0, done.stdout
    assert "credentialprovider.kubelet.k8s.io/v1beta1" in done.stdout.splitlines()[0]
    assert "registry.example/keyferry-kit/image" in done.stderr
    wrong = run_keyferry(*words, "--provider", "other")
    assert wrong.returncode == 2
    assert "has no provider 'other'" in wrong.stderr


def kubeconfig(folder: Path, plugin: Path) -> Path:
    """A kubeconfig with that plugin."""
    exec_section = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": str(plugin),
        "args": ["--one"],
        "env": [{"name": "REGION", "value": "eu"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example:6443"}}],
        "users": [{"name": "u", "user": {"exec": exec_section}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
@pytest.mark.parametrize("command", ["test", "trace"])
def test_no_plugin_of_a_kubeconfig_that_others_can_write_is_run(tmp_path: Path, command: str) -> None:
    """As for ``keyferry kube``: only --trust runs it."""
    ran = tmp_path / "ran"
    plugin = write_executable(tmp_path / "plugin", f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    path = kubeconfig(tmp_path, plugin)
    path.chmod(0o666)
    done = run_keyferry("plugin", command, "--kubeconfig", str(path))
    assert done.returncode == 3, done.stderr
    assert "which is not trusted" in done.stderr
    assert not ran.exists()
    run_keyferry("plugin", command, "--kubeconfig", str(path), "--trust")
    assert ran.exists()


def test_a_kubeconfig_says_how_a_cluster_plugin_is_run(tmp_path: Path) -> None:
    """Program, arguments, variables, version and cluster are taken from it."""
    check = f'case $*/$REGION/$info in "--one/eu/"*) ;; *) fail "got $*/$REGION" ;; esac; {say(credential())}'
    told = 'case $info in *cluster.example*|*keyferry.invalid*) ;; *) fail "no cluster" ;; esac'
    plugin = write_plugin(tmp_path, cluster({"main": check, "other": check, "before": told}))
    done = run_keyferry("plugin", "test", "--kubeconfig", str(kubeconfig(tmp_path, plugin)), *QUICK)
    assert done.returncode == 0, done.stdout
    assert "cluster plugin, client.authentication.k8s.io/v1beta1" in done.stdout.splitlines()[0]
    assert TOKEN not in done.stdout + done.stderr


def test_a_hanging_plugin_is_ended_at_its_time_limit(tmp_path: Path) -> None:
    """And that is said."""
    path = str(write_plugin(tmp_path, process_plugin("KP320", PluginKind.IMAGE)))
    done = run_keyferry("plugin", "test", path, "--image", IMAGE_NAME, "--timeout", "0.5")
    assert done.returncode == 1
    assert "✗ KP320" in done.stdout
    assert "it did not end within 0.5 s" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "no plugin is given"),
        (("{plugin}",), 2, "no image is given"),
        (("{plugin}", "--image", "UPPER/Case"), 2, "lower case"),
        (("{plugin}", "--image", "a/b", "--only", "KP999"), 2, "'KP999' is not a code"),
        (("{plugin}", "--image", "a/b", "--api-version", "v7"), 2, "expected one of v1, v1beta1, v1alpha1"),
        (("{plugin}", "--image", "a/b", "--env", "secret-without-name"), 2, "expected NAME=VALUE"),
        (("{plugin}", "--image", "a/b", "--context", "x"), 2, "--context is for --kind cluster"),
        (("{plugin}", "--kind", "cluster", "--config", "x"), 2, "--config is for --kind image"),
        (("{plugin}", "--image", "a/b", "--timeout", "0"), 2, "is not a number of seconds"),
        (("./missing", "--image", "a/b"), 3, "does not exist"),
        (("{folder}", "--image", "a/b"), 3, "is a directory"),
        (("{text}", "--image", "a/b"), 3, "is not executable"),
        (("{format}", "--image", "a/b"), 3, "cannot be started: exec format error"),
        (("{plugin}", "--image", "a/b", "--service-account-token-file", "/nonexistent"), 3, "cannot be read"),
    ],
)
def test_wrong_usage_and_missing_plugins_are_told_apart(
    words: tuple[str, ...], code: int, text: str, tmp_path: Path
) -> None:
    """Exit code 2 is the user's, 3 the machine's; each says what to do."""
    plain = tmp_path / "text"
    plain.write_text("#!/bin/sh\n")
    shapeless = tmp_path / "format"
    shapeless.write_bytes(b"\0\1\2\3")
    shapeless.chmod(0o755)
    places = {"plugin": write_plugin(tmp_path), "folder": tmp_path, "text": plain, "format": shapeless}
    done = run_keyferry("plugin", "test", *(word.format(**places) for word in words), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert "secret-without-name" not in done.stderr
    assert "Traceback" not in done.stderr


def test_codes_can_be_looked_up() -> None:
    """One, or all."""
    one = run_keyferry("plugin", "test", "--list", "kp117")
    assert one.returncode == 0
    assert one.stdout.startswith("KP117  error: returns the same Registry response")
    listed = run_keyferry("plugin", "test", "--list").stdout
    assert re.findall(r"^KP\d+", listed, re.MULTILINE) == list(CHECKS)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_on_a_terminal_nothing_is_wider_than_it(columns: int, tmp_path: Path) -> None:
    """But words that cannot be broken, and the command that repeats a run, which is there to be pasted."""
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP105"])
    words = ("plugin", "test", str(path), "--image", IMAGE_NAME, "--only", "KP105,KP111", *QUICK)
    shown = keyferry_on_terminal(*words, columns=columns).screen
    lines = shown.split("\n")
    assert [
        line for line in lines if len(line) > columns and len(line.split()) > 1 and "repeat" not in line
    ] == []
    assert any(line.startswith("✗ KP105") for line in lines)
