"""The conformance kit finds in every purpose-broken plugin just the promise that it breaks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from keyferry._core.json import dumps
from keyferry.errors import EnvironmentProblem
from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.conformance import examine
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from keyferry.kit.report import Report, Status, to_document, to_junit
from support.kit_broken import CLUSTER_PLUGINS, IMAGE_PLUGINS, PROCESS_GAPS, matching_pair, process_plugin
from support.kit_plugins import (
    IMAGE_NAME,
    PASSWORD,
    Broken,
    always,
    answering,
    jwt,
    plugin_at,
    response,
    say,
    write_plugin,
    write_python_plugin,
)

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
# These would need a minute, or half the memory of a small machine: their rules are tested on made-up runs.
ELSEWHERE = {"KP321", "KP322"}


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


def test_every_check_has_a_plugin_that_fails_it() -> None:
    """No check is without a test that sees it fail."""
    missing = CHECKS.keys() - BROKEN.keys() - ELSEWHERE
    assert not missing, f"add a plugin that fails {sorted(missing)} alone to tests/support/kit_broken.py"
    assert CHECKS.keys() == BROKEN.keys() | ELSEWHERE


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_good_plugin_in_plain_shell_passes(kind: PluginKind, tmp_path: Path) -> None:
    """A shell script can keep every promise."""
    good = Broken(kind=kind)
    report = examine(plugin_at(write_plugin(tmp_path, good), good))
    assert report.failed_codes == (), shown(report)
    assert report.is_clean


def test_a_good_plugin_in_python_passes(tmp_path: Path) -> None:
    """So can a few lines of Python."""
    report = examine(plugin_at(write_python_plugin(tmp_path)))
    assert report.failed_codes == (), shown(report)


def test_a_good_plugin_with_a_certificate_passes(tmp_path: Path) -> None:
    """A cluster plugin may answer with a certificate and key."""
    good = answering({**matching_pair(), "expirationTimestamp": "2034-01-01T00:00:00Z"})
    report = examine(plugin_at(write_plugin(tmp_path, good), good))
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


def test_a_cache_shorter_than_its_token_is_fine(tmp_path: Path) -> None:
    """A token that ends after the cache does breaks no promise."""
    good = always(response(auth={"registry.example": ("user", jwt(3600))}))
    report = examine(plugin_at(write_plugin(tmp_path, good), good), only={"KP111"})
    assert report.failed_codes == (), shown(report)


def test_a_process_that_leaves_the_session_is_found(tmp_path: Path) -> None:
    """A daemon of its own session is found by the mark that it carries, and ended."""
    pid_file = tmp_path / "pid"
    start = f"first && setsid sh -c 'echo $$ >{pid_file}; exec sleep 300' </dev/null >/dev/null 2>&1 &"
    broken = Broken({"before": start})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == ("KP324",), shown(report)
    pid = int(pid_file.read_text())
    assert not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_plugin_that_hangs_keeps_no_promise(kind: PluginKind, tmp_path: Path) -> None:
    """It neither answers nor ends, and of the rest nothing is claimed; nobody says that there is no /proc here."""
    broken = Broken({"main": "sleep 60"}, {"timeout_seconds": 1.0}, kind=kind)
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    answers = "KP101" if kind == PluginKind.IMAGE else "KP201"
    assert report.failed_codes == (answers, "KP320", "KP323"), shown(report)
    assert [result.check.code for result in report.results if result.status is Status.PASSED] == []
    assert not any("/proc" in result.reason for result in report.results)


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
@pytest.mark.parametrize("status", [252, 255])
def test_a_refusal_by_status_255_breaks_no_promise(kind: PluginKind, status: int, tmp_path: Path) -> None:
    """As klog.Fatalf and the AWS CLI end: with a message it is a refusal like any other."""
    broken = Broken({"failing": f'echo "plugin: $1" >&2; exit {status}'}, kind=kind)
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == (), shown(report)


def test_garbage_in_other_versions_is_no_answer(tmp_path: Path) -> None:
    """What cannot be read is neither an answer in that version nor a refusal of it."""
    broken = Broken({"late": "case $version in */v1beta1) echo garbage; exit 0 ;; esac"})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == ("KP130",), shown(report)


def test_garbage_in_every_version_proves_nothing_about_versions(tmp_path: Path) -> None:
    """The checks of versions have no result where there is no good answer to compare with."""
    broken = Broken({"start": "cat >/dev/null; echo garbage; exit 0"})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    by_code = {result.check.code: result.status for result in report.results}
    assert by_code["KP102"] is Status.FAILED
    assert by_code["KP130"] is by_code["KP131"] is Status.UNCHECKED


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
    said = shown(report) + dumps(to_document(report)) + to_junit(report)
    assert LEAKED not in said
    assert "hunter2" not in said


@pytest.mark.parametrize("duration", ["-1s", "-1ns", "-10m0s"])
def test_a_negative_duration_is_found(duration: str, tmp_path: Path) -> None:
    """The kubelet decodes it and never uses what it is said of; zero is another matter."""
    broken = always(response(duration=duration))
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken), only={"KP107", "KP110"})
    assert report.failed_codes == ("KP107",), shown(report)


def test_a_plugin_that_forks_without_end_is_ended(tmp_path: Path) -> None:
    """Children that start children are all killed when their time is up."""
    marker = tmp_path / "alive"
    spawn = f"spawn() {{ while :; do echo x >>{marker}; sleep 0.05; done & }}"
    fork = f"{spawn}; for i in 1 2 3 4 5 6; do spawn; done; wait"
    broken = Broken({"main": fork}, {"timeout_seconds": 1.0})
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.failed_codes == ("KP101", "KP320", "KP323"), shown(report)
    size = marker.stat().st_size
    time.sleep(0.3)
    assert marker.stat().st_size == size


def test_when_the_first_run_hangs_no_other_is_made(tmp_path: Path) -> None:
    """Nobody waits fifty times a minute for a plugin that hangs."""
    broken = process_plugin("KP320", PluginKind.IMAGE)
    report = examine(plugin_at(write_plugin(tmp_path, broken), broken))
    assert report.runs == 1
    unchecked = [result for result in report.results if result.status is Status.UNCHECKED]
    assert len(unchecked) > 40
    assert all(result.reason for result in unchecked)


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
