"""``keyferry plugin test``: each broken promise is found by its code."""

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

from keyferry.errors import EnvironmentProblem
from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.conformance import examine
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from keyferry.kit.report import Report, Status, to_document, to_junit
from support.commands import run_in_process
from support.kit_broken import CLUSTER_PLUGINS, IMAGE_PLUGINS, PROCESS_GAPS, matching_pair, process_plugin
from support.kit_plugins import (
    IMAGE_NAME,
    PASSWORD,
    TOKEN,
    Broken,
    always,
    answering,
    cluster,
    credential,
    jwt,
    plugin_at,
    response,
    say,
    write_plugin,
    write_python_plugin,
)
from support.kube import Kube
from support.plugins import is_running, provider_entry, wait_until, write_config, write_executable
from support.terminal import keyferry_on_terminal

BROKEN = {
    **IMAGE_PLUGINS,
    **CLUSTER_PLUGINS,
    **{
        code: process_plugin(
            code, PluginKind.CLUSTER if code in ("KP305", "KP324", "KP332") else PluginKind.IMAGE
        )
        for code in PROCESS_GAPS
    },
}


def shown(report: Report) -> str:
    """Everything that failed, for the message of a test."""
    return "\n".join(
        f"{result.check.code} {broken.experiment}: {broken.found}"
        for result in report.results
        for broken in result.broken
    )


# A plugin whose answer is wrong behaves well as a process: fewer runs tell as much, in a third of the time.
ANSWERS = {code for code in CHECKS if "KP102" <= code < "KP140" or "KP202" <= code < "KP216"}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_promise_is_found_by_its_code_alone(code: str, tmp_path: Path) -> None:
    """A plugin that breaks one promise fails that check, and no other."""
    broken = BROKEN[code]
    only = ANSWERS | {"KP332"} if code in ANSWERS else ()
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only=only)
    assert set(report.failed_codes) == {code, *broken.also}, shown(report)


# A child that ends by itself, a moment later, is not left behind.
PARTING = "first && (sleep 0.1) </dev/null >/dev/null 2>&1 &"
# As klog.Fatalf and the AWS CLI end: with a message it is a refusal like any other.
EXIT_255 = 'echo "plugin: $1" >&2; exit 255'
GOOD = {
    "image": Broken({"before": PARTING}),
    "cluster": cluster({"before": PARTING}),
    "certificate": answering({**matching_pair(), "expirationTimestamp": "2034-01-01T00:00:00Z"}),
    "cache shorter than its token": always(response(auth={"registry.example": ("user", jwt(3600))})),
    "image, refusing with 255": Broken({"failing": EXIT_255}),
    "cluster, refusing with 255": cluster({"failing": EXIT_255}),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_a_good_plugin_in_plain_shell_passes(good: Broken, tmp_path: Path) -> None:
    """A shell script can keep every promise."""
    report = examine(plugin_at(write_plugin(tmp_path, good), good))
    assert report.failed_codes == (), shown(report)
    assert report.is_clean


def test_a_good_plugin_in_python_passes(tmp_path: Path) -> None:
    """So can a few lines of Python."""
    report = examine(plugin_at(write_python_plugin(tmp_path)))
    assert report.failed_codes == (), shown(report)


def test_a_token_made_anew_each_time_is_no_difference(tmp_path: Path) -> None:
    """Passwords that differ from run to run are not taken for a dependence on the image."""
    broken = Broken(dict.fromkeys(("main", "other"), say_with_new_password("user")))
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == (), shown(report)
    assert_uncomparable(report, "KP117")


@pytest.mark.parametrize(("code", "key_type"), [("KP116", "Global"), ("KP117", "Registry")])
def test_a_token_made_anew_each_second_is_no_difference(code: str, key_type: str, tmp_path: Path) -> None:
    """Two responses of one second are equal, and one of the next second, for another image, is no fault."""
    old, new = (response(key_type, auth={"registry.example": ("user", each)}) for each in ("old", "new"))
    main = f"if [ -e {{here}}/next-second ]; then {say(new)}; else {say(old)}; fi"
    other = f"sleep 0.5; mkdir -p {{here}}/next-second; {say(new)}"
    broken = Broken({"main": main, "other": other})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only={code})
    assert report.failed_codes == (), shown(report)
    assert_uncomparable(report, code)


def test_another_user_is_a_difference_even_with_new_tokens(tmp_path: Path) -> None:
    """Keys and user names are compared where passwords cannot be."""
    broken = Broken({"main": say_with_new_password("user"), "other": say_with_new_password("other")})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP117"})
    assert report.failed_codes == ("KP117",), shown(report)


def say_with_new_password(user: str) -> str:
    """Return the shell command that prints a response whose password is another one in each process."""
    return say(response(auth={"registry.example": (user, "fresh-each-time-@")})).replace("@", "'$$'")


def assert_uncomparable(report: Report, code: str) -> None:
    """The check is not made, and the reason says why."""
    (result,) = (each for each in report.results if each.check.code == code)
    assert result.status is Status.UNCHECKED
    assert "cannot be compared" in result.reason


LEFT = {
    # A daemon in a session of its own is found by the mark that it carries.
    "daemon": ("setsid sh -c 'echo $$ >{pid}; exec sleep 300' </dev/null >/dev/null 2>&1", "KP324"),
    # A child that holds the output does not hold us until its own end.
    "child": ("sh -c 'echo $$ >{pid}; exec sleep 300'", "KP325"),
}


@pytest.mark.parametrize(("command", "code"), LEFT.values(), ids=LEFT)
def test_a_process_that_is_left_behind_is_found_and_ended(command: str, code: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    broken = Broken({"before": f"first && {command.format(pid=pid_file)} &"})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == (code,), shown(report)
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_running(pid))


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_plugin_that_hangs_keeps_no_promise(kind: PluginKind, tmp_path: Path) -> None:
    """It neither answers nor ends, and of the rest nothing is claimed; nobody waits for it fifty times."""
    broken = Broken({"main": "sleep 60"}, {"timeout_seconds": 1.0}, kind=kind)
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    answers = "KP101" if kind == PluginKind.IMAGE else "KP201"
    assert report.failed_codes == (answers, "KP320", "KP323"), shown(report)
    assert "it did not end within 1 s" in shown(report)
    assert report.runs == 1
    unchecked = [result for result in report.results if result.status is not Status.FAILED]
    assert {result.status for result in unchecked} == {Status.UNCHECKED}
    # Nobody says that there is no /proc here.
    assert all(result.reason and "/proc" not in result.reason for result in unchecked)


LEAKED = "Zq7-leaked-into-a-key"
KEYS = {
    "alone": LEAKED,
    "short": "hunter2",
    "user info": f"user:{LEAKED}@registry.example",
    "user alone": f"{LEAKED}@registry.example",
    "url": f"https://user:{LEAKED}@registry.example/team",
    "as a port": f"registry.example:{LEAKED}",
    "blanks": f"{LEAKED} and more",
    "escape": f"%zz{LEAKED}",
    "bracket": f"[{LEAKED}",
    "query": f"{LEAKED}?x",
    "scheme": f"{LEAKED}://registry.example",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("login", [("user:x", ""), ("user", f"{PASSWORD}\n")])
def test_a_secret_in_a_key_is_not_shown(key: str, login: tuple[str, str], tmp_path: Path) -> None:
    """A plugin that mixes up its fields has its report, and no format of it shows what it put in the wrong place."""
    broken = always(response("Image", auth={key: login}))
    codes = {"KP101", "KP111", "KP112", "KP114", "KP115", "KP119", "KP120"}
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only=codes)
    assert report.failed_codes
    said = shown(report) + json.dumps(to_document(report)) + to_junit(report)
    assert LEAKED not in said
    assert "hunter2" not in said


def test_a_plugin_that_forks_without_end_is_ended(tmp_path: Path) -> None:
    """Children that start children are all killed when their time is up."""
    pids = tmp_path / "pids"
    spawn = f"spawn() {{ while :; do sh -c 'echo $$ >>{pids}; exec sleep 300' & sleep 0.3; done & }}"
    fork = f"{spawn}; for i in 1 2 3 4 5 6; do spawn; done; wait"
    broken = Broken({"main": fork}, {"timeout_seconds": 3.0})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == ("KP101", "KP320", "KP323"), shown(report)
    found = {int(line) for line in pids.read_text().split()}
    assert found
    wait_until(lambda: not any(map(is_running, found)))
    assert {int(line) for line in pids.read_text().split()} == found


def test_checks_can_be_chosen_and_left_out(tmp_path: Path) -> None:
    """What is left out on purpose is shown as such, and what is chosen needs fewer runs."""
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP128"])
    plugin = plugin_at(path)
    only = examine(plugin, only={"KP128"})
    assert only.failed_codes == ("KP128",)
    assert only.runs == 2
    without = examine(plugin, skip={"KP128"})
    assert without.is_clean
    (left_out,) = [result for result in without.results if result.check.code == "KP128"]
    assert left_out.status is Status.SKIPPED
    assert left_out.reason == "excluded by --skip"


def test_the_service_account_token_is_sent_and_never_shown(tmp_path: Path) -> None:
    """A real token goes to the plugin; the report of one that prints it has only its mask."""
    token = "a-real-token-that-nobody-may-see"
    seen = tmp_path / "seen"
    broken = Broken(
        {"early": f"case $request in *{token}*) : >{seen} ;; esac", "late": 'echo "$request" >&2'},
        {"token": token},
    )
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert seen.exists()
    assert "KP301" in report.failed_codes
    assert token not in repr(report)


def test_a_plugin_may_be_named_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found again from another working directory, and a tag of its image does not matter."""
    write_plugin(tmp_path)
    monkeypatch.chdir(tmp_path)
    report = examine(PluginUnderTest(path="./plugin", images=(f"{IMAGE_NAME}:v1",)), only={"KP101", "KP328"})
    assert report.failed_codes == (), shown(report)


@pytest.mark.parametrize(
    "plugin", [PluginUnderTest(path="/bin/true"), PluginUnderTest(path="./missing", images=("a/b",))]
)
def test_what_cannot_be_examined_raises(plugin: PluginUnderTest) -> None:
    """An image plugin needs an image, and every plugin a program."""
    with pytest.raises(EnvironmentProblem):
        examine(plugin)


def examined(plugin: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Test an image plugin by the command."""
    return run_in_process("plugin", "test", str(plugin), "--image", IMAGE_NAME, *words)


def test_a_clean_plugin_is_exit_code_0(tmp_path: Path) -> None:
    """Only what was not checked stands in the report, by its reason; the summary is on standard error."""
    done = examined(write_plugin(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "✓" not in done.stdout
    assert "KP101" not in done.stdout
    assert "    KP111     no password contains its expiry\n" in done.stdout
    assert "no failures" in done.stderr


def test_verbose_lists_what_passed(tmp_path: Path) -> None:
    """Every check has a line of its own, with the reason if it was not made."""
    path = write_plugin(tmp_path)
    for option in ("-v", "--verbose"):
        done = examined(path, "--only", "KP101,KP111", option)
        assert done.returncode == 0, done.stdout
        assert "✓ KP101  answers a request for its image with exit status 0\n" in done.stdout
        assert "- KP111  sets a cacheDuration that ends before its credential expires" in done.stdout
        assert "(not checked: no password contains its expiry)\n" in done.stdout
        assert "1 passed, 1 not checked;" in done.stderr


def test_an_error_is_exit_code_1_with_all_there_is_to_know(tmp_path: Path) -> None:
    """Found, expected, why, what to change, and the command that repeats it."""
    done = examined(write_plugin(tmp_path, IMAGE_PLUGINS["KP128"]), "--only", "KP128")
    assert done.returncode == 1
    start = done.stdout.index("✗ KP128")
    block = done.stdout[start : done.stdout.index("\n\n", start)].splitlines()
    names = [line.split()[0] for line in block if not line.startswith(" " * 14)]
    assert names == ["✗", "request", "found", "expected", "repeat", "why", "change"]
    assert '"image":""' in block[4]
    assert "1 error;" in done.stderr


def test_errors_and_warnings_fail_and_infos_only_when_strict(tmp_path: Path) -> None:
    """What is left out of the report does not count."""
    warned = write_plugin(tmp_path, IMAGE_PLUGINS["KP108"])
    assert examined(warned, "--only", "KP108").returncode == 1
    hidden = examined(warned, "--only", "KP108", "--severity", "error")
    assert (hidden.returncode, "! KP108" in hidden.stdout) == (0, False)
    informed = write_plugin(tmp_path, IMAGE_PLUGINS["KP110"], "other")
    assert examined(informed, "--only", "KP110").returncode == 0
    assert examined(informed, "--only", "KP110", "--strict").returncode == 1
    assert examined(informed, "--only", "KP110", "--strict", "--severity", "warning").returncode == 0


def test_json_and_junit_hold_the_same_results(tmp_path: Path) -> None:
    """The file beside the table, and the format on standard output."""
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP106"])
    junit = tmp_path / "report.xml"
    done = examined(path, "-o", "json", "--junit", str(junit))
    assert done.returncode == 1
    results = json.loads(done.stdout)["results"]
    assert [result["code"] for result in results if result["status"] == "failed"] == ["KP106"]
    suite = ET.parse(junit).getroot()[0]
    failures = [case.get("name", "") for case in suite if case.find("failure") is not None]
    assert [name.split()[0] for name in failures] == ["KP106"]
    assert len(suite) == len(results)
    shown = examined(path, "-o", "junit", "--only", "KP106")
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


def test_a_plugin_that_leaks_everywhere_leaks_nothing_through_the_report(tmp_path: Path) -> None:
    """Whatever a plugin does with its secret, no format shows it."""
    path, junit = write_plugin(tmp_path, LEAKY), tmp_path / "report.xml"
    table, document = examined(path), examined(path, "-o", "json", "--junit", str(junit))
    assert (table.returncode, document.returncode) == (1, 1)
    for text in (table.stdout, document.stdout, junit.read_text()):
        for code in ("KP106", "KP120", "KP301", "KP302", "KP303"):
            assert code in text
        said = text + table.stderr + document.stderr
        assert PASSWORD not in said
        assert base64.b64encode(PASSWORD.encode()).decode()[:16] not in said


def test_secrets_of_the_command_line_are_not_shown(tmp_path: Path) -> None:
    """The commands that repeat a check take them from variables of the shell, which are named."""
    token = tmp_path / "token"
    token.write_text("s3cret-service-account-token\n")
    options = ("--env", "KEY=s3cret-variable", "--service-account-token-file", str(token))
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP128"])
    done = examined(path, *options, "--annotation", "a.example/b=c", "--", "--password", "s3cret-argument")
    assert done.returncode == 1
    assert ' | env KEY="$KEY" ' in done.stdout
    assert "*****" not in done.stdout
    note = " ".join(done.stdout.partition("note: set these variables in your shell")[2].split())
    assert note.startswith("before you paste a repeat line: KEY, ARG_2 (in its argument 2)")
    assert "s3cret" not in done.stdout + done.stderr


def test_a_command_that_repeats_a_check_can_be_pasted(tmp_path: Path) -> None:
    """Into a shell that has the variables which the report names."""
    is_given = '[ "$KEY $2" = "s3cret-variable s3cret-argument" ] || exit 3'
    text = f"#!/bin/sh\ncat >/dev/null\n{is_given}\n{say(response())}\n"
    options = ("--env", "KEY=s3cret-variable", "-o", "json", "--only", "KP126,KP128")
    path = write_executable(tmp_path / "plugin", text)
    done = examined(path, *options, "--", "--password", "s3cret-argument")
    results = json.loads(done.stdout)["results"]
    commands = [one["repeat"] for each in results for one in each.get("broken", ())]
    assert len(commands) == 2
    known = {**os.environ, "KEY": "s3cret-variable", "ARG_2": "s3cret-argument"}
    for command in commands:
        subprocess.run(["sh", "-c", command], env=known, capture_output=True, check=True)


def test_the_report_names_the_plugin_as_it_was_given(tmp_path: Path) -> None:
    """Also where its folder looks like a secret, and its name is the password."""
    folder = tmp_path / "tmp.A8bC3d9Xyz" / PASSWORD
    folder.mkdir(parents=True)
    path = write_plugin(folder, IMAGE_PLUGINS["KP128"])
    done = examined(path, "--only", "KP128")
    assert done.stdout.startswith(f"{path}: image plugin, ")
    assert f" | {path}\n" in done.stdout
    trace = run_in_process("plugin", "trace", str(path), IMAGE_NAME, "-o", "json")
    assert json.loads(trace.stdout)["command"] == str(path)


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_banner_on_standard_output_is_to_be_fixed_first(kind: PluginKind, tmp_path: Path) -> None:
    """What hides all other results stands alone; nothing of what was printed is shown, but its length."""
    code = "KP102" if kind is PluginKind.IMAGE else "KP202"
    broken = Broken({"start": "echo 'Welcome to 7 of 9'"}, kind=kind)
    path = str(write_plugin(tmp_path, broken))
    words = ["plugin", "test", path]
    words += ["--image", IMAGE_NAME] if kind is PluginKind.IMAGE else ["--kind", "cluster"]
    done = run_in_process(*words)
    assert done.returncode == 1
    assert f"\n\nfix this first:\n✗ {code}  prints one " in done.stdout
    assert "18 bytes before it\n" in done.stdout
    assert done.stdout.count("✗") == 1
    assert "not checked:" not in done.stdout
    assert re.search(
        r"of the other checks, .* and \d+ were not made, some because of this; -v lists all", done.stdout
    )
    assert "Welcome" not in done.stdout + done.stderr
    verbose = run_in_process(*words, "-v")
    assert len(re.findall("(?m)^[✗!] ", verbose.stdout)) > 1
    assert verbose.stdout.count(f" {code} ") == 1
    assert json.loads(run_in_process(*words, "-o", "json").stdout)["fixFirst"] == code


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_an_empty_standard_output_has_its_own_advice(kind: PluginKind, tmp_path: Path) -> None:
    path = tmp_path / "silent"
    path.write_text("#!/bin/sh\ncat > /dev/null\n")
    path.chmod(0o755)
    words = ["--image", IMAGE_NAME] if kind is PluginKind.IMAGE else ["--kind", "cluster"]
    done = run_in_process("plugin", "test", str(path), *words, "--only", "KP101,KP102,KP201,KP202")
    assert done.returncode == 1
    shown = " ".join(done.stdout.split())
    assert "it is empty" in shown
    assert "rejects it if it is empty" in shown
    assert "write the response to standard output" in shown


def test_arguments_and_variables_reach_the_plugin(tmp_path: Path) -> None:
    """From --arg, --env and after --."""
    check = f'[ "$*/$REGION" = "--one two/eu" ] || fail "got $*/$REGION"; {say(response())}'
    path = write_plugin(tmp_path, Broken({"main": check}))
    done = examined(path, "--arg=--one", "--env", "REGION=eu", "--only", "KP101", "--", "two")
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
    words = ("plugin", "test", str(path), "--config", str(config))
    done = run_in_process(*words)
    assert done.returncode == 0, done.stdout
    assert "credentialprovider.kubelet.k8s.io/v1beta1" in done.stdout.splitlines()[0]
    assert "registry.example/keyferry-kit/image" in done.stderr
    wrong = run_in_process(*words, "--provider", "other")
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
    kube = Kube(folder)
    kube.write("https://cluster.example:6443", user={"exec": exec_section})
    return kube.path


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
@pytest.mark.parametrize("command", ["test", "trace"])
def test_no_plugin_of_a_kubeconfig_that_others_can_write_is_run(tmp_path: Path, command: str) -> None:
    """As for ``keyferry kube``: only --trust runs it."""
    ran = tmp_path / "ran"
    plugin = write_executable(tmp_path / "plugin", f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    path = kubeconfig(tmp_path, plugin)
    path.chmod(0o666)
    done = run_in_process("plugin", command, "--kubeconfig", str(path))
    assert done.returncode == 3, done.stderr
    assert "which is not trusted" in done.stderr
    assert not ran.exists()
    run_in_process("plugin", command, "--kubeconfig", str(path), "--trust")
    assert ran.exists()


def test_a_kubeconfig_says_how_a_cluster_plugin_is_run(tmp_path: Path) -> None:
    """Program, arguments, variables, version and cluster are taken from it."""
    check = f'case $*/$REGION/$info in "--one/eu/"*) ;; *) fail "got $*/$REGION" ;; esac; {say(credential())}'
    told = 'case $info in *cluster.example*|*keyferry.invalid*) ;; *) fail "no cluster" ;; esac'
    plugin = write_plugin(tmp_path, cluster({"main": check, "other": check, "before": told}))
    done = run_in_process("plugin", "test", "--kubeconfig", str(kubeconfig(tmp_path, plugin)))
    assert done.returncode == 0, done.stdout
    assert "cluster plugin, client.authentication.k8s.io/v1beta1" in done.stdout.splitlines()[0]
    assert TOKEN not in done.stdout + done.stderr


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
    done = run_in_process("plugin", "test", *(word.format(**places) for word in words), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert "secret-without-name" not in done.stderr
    assert "Traceback" not in done.stderr


def test_codes_can_be_looked_up() -> None:
    """One, or all."""
    one = run_in_process("plugin", "test", "--list", "kp117")
    assert one.returncode == 0
    assert one.stdout.startswith("KP117  error: returns the same Registry response")
    listed = run_in_process("plugin", "test", "--list").stdout
    assert re.findall(r"^KP\d+", listed, re.MULTILINE) == list(CHECKS)


def test_on_a_terminal_nothing_is_wider_than_it(tmp_path: Path) -> None:
    """But words that cannot be broken, and the command that repeats a run, which is there to be pasted."""
    path = write_plugin(tmp_path, IMAGE_PLUGINS["KP105"])
    words = ("plugin", "test", str(path), "--image", IMAGE_NAME, "--only", "KP105,KP111")
    lines = keyferry_on_terminal(*words, columns=60).screen.split("\n")
    assert [line for line in lines if len(line) > 60 and len(line.split()) > 1 and "repeat" not in line] == []
    assert any(line.startswith("✗ KP105") for line in lines)
