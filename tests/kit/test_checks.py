"""The checks of the kit on sets of runs, the catalogue of their codes, and the report."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from keyferry.invoke.run import Ending, ProcessOutcome
from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.lab.evidence import Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import Experiment, Family, Surroundings
from keyferry.kit.lab.launch import Process, Run, can_look
from keyferry.kit.lab.secrets import Secrets, secrets_in
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from keyferry.kit.report import Report, ReportedViolation, Result, Status, to_document, to_junit
from keyferry.sdk import replace
from support.kit_broken import matching_pair
from support.kit_plugins import GOOD, V1


def ran(
    stdout: bytes = GOOD,
    *,
    status: int | None = 0,
    stderr: bytes = b"",
    seconds: float = 0.1,
    ending: Ending = Ending.EXITED,
    **other: object,
) -> Run:
    """A run as it might have been."""
    return Run(
        outcome=ProcessOutcome(ending=ending, status=status, stdout=stdout, stderr=stderr, seconds=seconds),
        **other,  # type: ignore[arg-type] # by name
    )


FAMILIES = {
    "good": Family.NORMAL,
    "version": Family.VERSION,
    "image:": Family.IMAGE_NAME,
    "locale": Family.LOCALE,
    "at": Family.SIMULTANEOUS,
}


def asked(name: str, api_version: str = V1, image: str = "r.io/x") -> Experiment:
    """An experiment in the family that the kit gives it."""
    family = FAMILIES.get(name.partition(" ")[0], Family.OTHER)
    return Experiment(name=name, api_version=api_version, image=image, family=family)


def evidence(kind: PluginKind = PluginKind.IMAGE, **runs: Run) -> Evidence:
    """Evidence of some runs; an underscore in a name stands for a space."""
    plugin = PluginUnderTest(path="/plugin", kind=kind, images=("r.io/x",))
    named = {name.replace("_", " "): run for name, run in {"good": ran(), **runs}.items()}
    observed = {
        name: Observation(plugin=plugin, experiment=asked(name), run=run, secrets=Secrets())
        for name, run in named.items()
    }
    return Evidence(
        plugin=plugin,
        observations=observed,
        secrets=Secrets(),
        has_secrets=any(secrets_in(run.outcome.stdout) for run in named.values()),
        around=Surroundings(home="/h", temporary="/t", environ={}),
        now_ns=0,
    )


def with_experiment(shown: Evidence, name: str, api_version: str) -> Evidence:
    """The same evidence, where one request was made in another version."""
    one = replace(shown.observations[name], experiment=asked(name, api_version))
    return replace(shown, observations={**shown.observations, name: one})


def with_plugin(shown: Evidence, **changes: object) -> Evidence:
    """The same evidence of a plugin with other settings."""
    return replace(shown, plugin=replace(shown.plugin, **changes))


def findings(code: str, shown: Evidence) -> list[Violation]:
    """What a check finds."""
    check = CHECKS[code]
    return list(check.judge(shown.select(check.needs)))


MEGABYTE = 1024**2
BOUNDS = {
    # Ten seconds are slow, and a minute is too late even where the time limit is longer.
    "quick": ("KP321", ran(seconds=9.9), False),
    "slow": ("KP321", ran(seconds=10.5), True),
    "in time": ("KP320", ran(seconds=59.0), False),
    "late": ("KP320", ran(seconds=60.5), True),
    "small": ("KP322", ran(peak_bytes=500 * MEGABYTE), False),
    "large": ("KP322", ran(peak_bytes=513 * MEGABYTE), True),
    # The system shows the larger of its memory and ours: an upper bound, which is enough if it is low.
    "small at most": ("KP322", ran(peak_bytes=100 * MEGABYTE, is_peak_exact=False), False),
    # The kubelet decodes these, and never uses what they are said of.
    "minutes too few": ("KP107", ran(GOOD.replace(b'"1m"', b'"-10m0s"')), True),
    "a nanosecond too few": ("KP107", ran(GOOD.replace(b'"1m"', b'"-1ns"')), True),
}


@pytest.mark.parametrize(("code", "run", "fails"), BOUNDS.values(), ids=BOUNDS)
def test_time_and_memory_and_durations_have_bounds(code: str, run: Run, *, fails: bool) -> None:
    assert bool(findings(code, evidence(good=run))) is fails


@pytest.mark.parametrize(
    ("status", "fails"),
    [
        (0, False),
        (125, False),
        (126, True),
        (127, True),
        (139, True),
        (251, True),
        (252, False),
        (255, False),
        (-11, True),
    ],
)
def test_a_plugin_has_statuses_of_its_own(status: int, *, fails: bool) -> None:
    """A shell's statuses and signals count as a crash; those of klog.Fatalf and of the AWS CLI do not."""
    assert bool(findings("KP323", evidence(foreign=ran(status=status)))) is fails
    # Nor does an empty request make a crash a refusal.
    assert bool(findings("KP323", evidence(empty_input=ran(b"", status=status)))) is fails
    # A crash is no answer with exit status 0 either.
    assert bool(findings("KP101", evidence(good=ran(status=status)))) is bool(status)


HUNG = ran(b"", status=None, ending=Ending.TIMED_OUT)


FAILURES = ("KP141", "KP142", "KP143", "KP144", "KP145", "KP146", "KP147")
INPUTS = ("text", "truncated", "UTF-16", "two_documents", "deep_nesting", "huge_input", "image:_quotes")


@pytest.mark.parametrize(("code", "name"), [*zip(FAILURES, INPUTS, strict=True)])
def test_status_255_is_a_refusal_like_any_other(code: str, name: str) -> None:
    """With a message, it breaks no promise; a crash does."""
    assert findings(code, evidence(PluginKind.IMAGE, **{name: ran(b"", status=255, stderr=b"no")})) == []
    assert findings(code, evidence(PluginKind.IMAGE, **{name: ran(b"", status=-11)}))
    assert findings("KP310", evidence(PluginKind.IMAGE, **{name: ran(b"", status=255)}))


REFUSALS = (("KP126", "wrong_kind"), ("KP127", "wrong_group"), ("KP128", "empty_image"), ("KP129", "foreign"))


@pytest.mark.parametrize(("code", "name"), [*REFUSALS, ("KP140", "empty_input"), ("KP321", "good")])
def test_a_plugin_that_always_fails_proves_nothing_by_it(code: str, name: str) -> None:
    """It refuses what it must, and everything else too, at once; whoever answers where it must not is found."""
    failing = ran(b"", status=1, stderr=b"no")
    with pytest.raises(Unchecked):
        findings(code, evidence(PluginKind.IMAGE, **{"good": failing, name: failing}))
    if name not in ("good", "foreign"):
        assert findings(code, evidence(PluginKind.IMAGE, **{"good": failing, name: ran()}))


V1BETA1 = GOOD.replace(b"/v1", b"/v1beta1")


@pytest.mark.parametrize(
    ("run", "fails"),
    [
        (ran(V1BETA1), False),
        (ran(b"", status=1), False),
        (ran(b"", status=255), False),
        (ran(GOOD), True),
        (ran(b"garbage"), True),
        (ran(b""), True),
        (HUNG, True),
    ],
    ids=["answer", "refusal", "255", "another version", "garbage", "nothing", "hung"],
)
def test_another_version_is_answered_in_it_or_refused(run: Run, *, fails: bool) -> None:
    """Anything else breaks the promise, garbage included."""
    shown = evidence(version_v1beta1=run)
    shown = with_experiment(shown, "version v1beta1", V1.replace("v1", "v1beta1"))
    assert bool(findings("KP130", shown)) is fails


def test_one_answer_that_can_be_read_is_enough_to_check() -> None:
    """Garbage for one image does not keep the answer for another from being judged."""
    shown = evidence(good_2=ran(b"garbage"))
    assert findings("KP103", shown) == []
    assert [found.experiment for found in findings("KP102", shown)] == ["good 2"]


EXEC = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("stdout", "failed", "passed"),
    [
        (b"garbage", "KP202", ()),
        (b'{"kind":"Secret","apiVersion":"v1"}', "KP204", ("KP202",)),
        (b'{"kind":"ExecCredential","apiVersion":"x.example/v1"}', "KP203", ("KP202", "KP204")),
        (b'{"kind":"ExecCredential","apiVersion":"%s"}', "KP205", ("KP202", "KP203", "KP204", "KP209")),
        (
            b'{"kind":"ExecCredential","apiVersion":"%s","status":{}}',
            "KP206",
            ("KP202", "KP203", "KP204", "KP205", "KP209"),
        ),
        (
            b'{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"t"}}',
            "",
            ("KP202", "KP203", "KP204", "KP205", "KP206", "KP207", "KP209"),
        ),
    ],
)
def test_a_credential_that_cannot_be_read_so_far_passes_nothing(
    stdout: bytes, failed: str, passed: tuple[str, ...]
) -> None:
    """As with image plugins; and without a certificate nothing is said of one."""
    shown = evidence(PluginKind.CLUSTER, good=ran(stdout.replace(b"%s", EXEC.encode())))
    shown = with_experiment(shown, "good", EXEC)
    for code in ("KP202", "KP203", "KP204", "KP205", "KP206", "KP207", "KP208", "KP209"):
        if code in passed:
            assert findings(code, shown) == [], code
        elif code == failed:
            assert findings(code, shown)
        else:
            with pytest.raises(Unchecked):
                findings(code, shown)


def image_answer(auth: str = '{"r.io":{"username":"u","password":"p"}}', duration: str = '"1m"') -> Run:
    """A response with other credentials or another duration."""
    text = GOOD.decode().replace('{"r.io":{"username":"u","password":"p"}}', auth).replace('"1m"', duration)
    return ran(text.encode())


def cluster_evidence(status: str) -> Evidence:
    """Evidence of one response of a cluster plugin."""
    text = f'{{"kind":"ExecCredential","apiVersion":"{EXEC}","status":{status}}}'
    shown = evidence(PluginKind.CLUSTER, good=ran(text.encode()))
    return with_experiment(shown, "good", EXEC)


NO = ran(b"", status=1, stderr=b"no")
LONG = evidence(good=ran(GOOD.replace(b'"p"', b'"a-long-password"')))
IMAGES = GOOD.replace(b"Registry", b"Image")
PAIR = json.dumps({name: matching_pair()[name] for name in ("clientCertificateData", "clientKeyData")})
NO_AUTH, NO_DURATION = evidence(good=image_answer("{}")), evidence(good=image_answer(duration="null"))
IN_ANOTHER = with_experiment(evidence(version_v1beta1=ran()), "version v1beta1", V1.replace("v1", "v1beta1"))
# The codes that are not checked, what was seen, and a part of the reason.
UNSEEN: dict[str, tuple[str, Evidence, str]] = {
    "memory without a figure": ("KP322", evidence(), ""),
    "memory that may be this process's own": (
        "KP322", evidence(good=ran(peak_bytes=600 * 1024**2, is_peak_exact=False)), "",
    ),
    "garbage in every version": (
        "KP130 KP131", evidence(good=ran(b"garbage"), version_v1beta1=ran(b"garbage")), "",
    ),
    "nothing in every version": ("KP130 KP131", evidence(good=ran(b""), version_v1beta1=ran(b"")), ""),
    "a version that is answered in another": ("KP131", IN_ANOTHER, ""),
    "no credentials": ("KP111 KP112 KP114 KP115 KP119 KP120", NO_AUTH, ""),
    "no failure": ("KP310 KP311 KP312", evidence(), ""),
    "no answer, so no secret to look for": ("KP301 KP302 KP303 KP304 KP305", evidence(good=NO), ""),
    "no duration": ("KP107 KP109 KP110 KP111", NO_DURATION, "cacheDuration"),
    "a password without an expiry": ("KP111", evidence(), "expiry"),
    "anonymous entries": ("KP115", evidence(good=image_answer('{"*.io":{"username":"","password":""}}')), ""),
    "the line end of garbage": ("KP150", evidence(good=ran(b"garbage")), ""),
    "cacheType Token": ("KP121", with_plugin(evidence(account=ran()), cache_type="Token"), "cacheType"),
    "cacheType ServiceAccount": (
        "KP122", with_plugin(evidence(account=ran()), cache_type="ServiceAccount"), "cacheType",
    ),
    "a token that is answered with nothing": ("KP121", evidence(account=image_answer("{}")), ""),
    "passwords that change each time": (
        "KP118",
        evidence(good=ran(IMAGES), again=ran(IMAGES.replace(b'"p"', b'"q"')), sibling=ran(IMAGES)),
        "each",
    ),
    "every version is wanted": (
        "KP130", with_plugin(evidence(version_v1=ran()), api_versions=(V1, EXEC)), "--api-version",
    ),
    "every version of a cluster plugin is wanted": (
        "KP214", with_plugin(cluster_evidence('{"token":"t"}'), api_versions=(V1, EXEC)), "--api-version",
    ),
    **{
        f"{name} of a plugin that always fails": (code, evidence(PluginKind.IMAGE, **{"good": NO, name: NO}), "")
        for code, name in (
            *zip(FAILURES, INPUTS, strict=True), ("KP148", "image:_shell_words"), ("KP331", "no_reader"),
            ("KP332", "no_network"), ("KP327", "locale_C"),
        )
    },
    **{
        f"{name} of a cluster plugin that always fails": (
            code, evidence(PluginKind.CLUSTER, **{"good": NO, name: NO}), "",
        )
        for code, name in (("KP216", "input"), ("KP218", "no_exec_info"), ("KP220", "huge_exec_info"))
    },
    "an opaque token without an expiry": ("KP210 KP211 KP212", cluster_evidence('{"token":"opaque"}'), "expir"),
    "a certificate and no token": ("KP213", cluster_evidence(PAIR), ""),
    "a command line that was never seen": ("KP302", LONG, "command line|/proc"),
    "a home of one's own": ("KP303 KP305", with_plugin(LONG, env=(("HOME", "/home/me"),)), "HOME"),
    "a temporary folder of one's own": (
        "KP303 KP304 KP306", with_plugin(LONG, env=(("TMPDIR", "/var/tmp"),)), "TMPDIR",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSEEN)
def test_what_was_not_seen_is_not_judged(name: str) -> None:
    """Such a check has no result, neither passed nor failed, and the reason says why."""
    codes, shown, reason = UNSEEN[name]
    for code in codes.split():
        with pytest.raises(Unchecked, match=reason or None):
            findings(code, shown)


def test_what_is_missing_is_reported_once() -> None:
    """By the check that is for it; the others have nothing to look at."""
    assert findings("KP113", NO_AUTH)
    assert findings("KP108", NO_DURATION)


def test_an_expiry_of_an_opaque_token_cannot_be_compared_with_the_token() -> None:
    """KP210 and KP212 pass with the timestamp alone; KP211 needs the token's own expiry."""
    shown = cluster_evidence('{"token":"opaque","expirationTimestamp":"2034-01-01T00:00:00Z"}')
    assert findings("KP210", shown) == findings("KP212", shown) == []
    with pytest.raises(Unchecked):
        findings("KP211", shown)


def test_a_held_pipe_is_reported_once() -> None:
    """A child that holds the output is a check of its own, and not one more process left behind."""
    run = ran(left_behind=(Process(pid=1, name="sleep"),), held_output=True)
    assert findings("KP324", evidence(good=run)) == []
    (found,) = findings("KP325", evidence(good=run))
    assert "sleep" in found.found


def test_where_nobody_can_look_nothing_is_claimed() -> None:
    """Without /proc, or without a run that came to an end, the check for processes left behind has no result."""
    with pytest.raises(Unchecked) as caught:
        findings("KP324", evidence(good=ran(left_behind=None)))
    assert ("/proc" in str(caught.value)) is not can_look()


REFUSED = {
    "nothing": (b"", "KP102"),
    "a list": (b"[]", "KP102"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "KP102"),
    "two": (GOOD + GOOD, "KP102"),
    "null": (b"null", "KP103"),
    "another version": (GOOD.replace(b"/v1", b"/v1beta1"), "KP103"),
    "two slashes": (GOOD.replace(b"/v1", b"/a/v1"), "KP103"),
    "another kind": (GOOD.replace(b"Response", b"Request"), "KP104"),
    "no kind": (GOOD.replace(b"CredentialProviderResponse", b""), "KP104"),
    "unknown field": (GOOD.replace(b"cacheDuration", b"cacheduration"), "KP105"),
    "wrong type": (GOOD.replace(b'"username":"u"', b'"username":1'), "KP105"),
    "repeated field": (GOOD.replace(b'"username":"u"', b'"username":"u","username":"v"'), "KP105"),
    "no duration of Go": (GOOD.replace(b'"1m"', b'"1 minute"'), "KP107"),
    "a number": (GOOD.replace(b'"1m"', b"60"), "KP107"),
}


READ_IN_ORDER = ("KP102", "KP103", "KP104")
READ_AT_ONCE = ("KP105", "KP107")


@pytest.mark.parametrize(("stdout", "code"), REFUSED.values(), ids=REFUSED)
def test_what_the_kubelet_refuses_has_one_code(stdout: bytes, code: str) -> None:
    """It stops at the first thing that is wrong: what stands before it passes, and the rest has no result."""
    shown = evidence(good=ran(stdout))
    passed = READ_IN_ORDER[: READ_IN_ORDER.index(code)] if code in READ_IN_ORDER else READ_IN_ORDER
    assert [findings(each, shown) for each in passed] == [[]] * len(passed)
    assert findings(code, shown)
    for each in {*READ_IN_ORDER, *READ_AT_ONCE} - {code, *passed}:
        with pytest.raises(Unchecked):
            findings(each, shown)


@pytest.mark.parametrize(
    ("key", "never"),
    [
        ("registry.example", False),
        ("registry.example:5000/team", False),
        ("*.registry.example", False),
        ("https://index.docker.io/v1/", False),
        ("HTTPS://registry.example", True),
        ("registry.example/*", True),
        ("registry?.example", True),
        ("registry example", True),
        ("", True),
    ],
)
def test_keys_that_can_never_match_are_found(key: str, *, never: bool) -> None:
    """A key is good if some image could match it."""
    shown = evidence(good=image_answer(json.dumps({key: {"username": "u", "password": "p"}})))
    assert bool(findings("KP114", shown)) is never


@pytest.mark.parametrize(("image", "fails"), [("docker.io/library/busybox", False), ("quay.io/x/y", True)])
def test_the_key_of_docker_hub_serves_its_images(image: str, *, fails: bool) -> None:
    """The kubelet's fallback for Docker Hub counts as a match."""
    key = "https://index.docker.io/v1/"
    shown = evidence(good=image_answer(json.dumps({key: {"username": "u", "password": "p"}})))
    one = replace(shown.observations["good"], experiment=asked("good", image=image))
    assert bool(findings("KP112", replace(shown, observations={"good": one}))) is fails


BROKEN = ReportedViolation(
    experiment="good", found="exit \x1b[31m1 \ud800 <&>", expected="exit 0", repeat="printf '' | plugin"
)


def report() -> Report:
    """One result of every kind."""
    return Report(
        plugin="/plugin",
        kind=PluginKind.IMAGE,
        api_version="credentialprovider.kubelet.k8s.io/v1",
        results=(
            Result(check=CHECKS["KP101"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP108"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP110"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP106"], status=Status.PASSED),
            Result(check=CHECKS["KP302"], status=Status.UNCHECKED, reason="no /proc"),
            Result(check=CHECKS["KP303"], status=Status.SKIPPED, reason="excluded by --skip"),
        ),
        runs=49,
        seconds=1.25,
        notes=("a note",),
    )


def test_the_document_counts_what_it_holds() -> None:
    """The schema, against which every printed document is held, has the fields."""
    document: Any = to_document(report())
    assert document["summary"] == {
        "errors": 1,
        "warnings": 1,
        "infos": 1,
        "passed": 1,
        "notChecked": 1,
        "skipped": 1,
    }
    assert [result["status"] for result in document["results"]] == [
        *["failed"] * 3,
        "passed",
        "notChecked",
        "skipped",
    ]
    assert not report().is_clean


def test_junit_is_valid_xml_with_failures_and_skips() -> None:
    """Errors and warnings fail, infos only if they are to; what XML cannot hold is replaced."""
    suite = ET.fromstring(to_junit(report()))[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "errors": "0",
        "skipped": "2",
    }
    reasons = [skipped.get("message") for skipped in suite.findall("testcase/skipped")]
    assert reasons == ["no /proc", "excluded by --skip"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "printf '' | plugin" in (failure.text or "")
    assert "<&>" in failure.get("message", "")
    assert len(suite.findall("testcase/system-out")) == 1
    strict = ET.fromstring(to_junit(report(), strict=True))[0]
    assert strict.get("failures") == "3"
