"""Rules are functions of what the runs have shown; here the runs are made up."""

from __future__ import annotations

import pytest

from keyferry._core.json import dumps
from keyferry._core.values import replace
from keyferry.errors import PluginProtocolError
from keyferry.images.provider.plugin import decode_response
from keyferry.invoke.run import Ending, ProcessOutcome
from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.checks.responses import classify, serves, why_unmatchable
from keyferry.kit.lab.evidence import Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import Experiment, Family, Surroundings
from keyferry.kit.lab.launch import Process, Run, can_look
from keyferry.kit.lab.secrets import Secrets, secrets_in
from keyferry.kit.plugin import PluginKind, PluginUnderTest
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


@pytest.mark.parametrize(
    ("code", "seconds", "fails"),
    [("KP321", 9.9, False), ("KP321", 10.5, True), ("KP320", 59.0, False), ("KP320", 60.5, True)],
)
def test_time_is_judged_by_its_bounds(code: str, seconds: float, *, fails: bool) -> None:
    """Ten seconds are slow, and a minute is too late even where the time limit is longer."""
    assert bool(findings(code, evidence(good=ran(seconds=seconds)))) is fails


@pytest.mark.parametrize(("megabytes", "fails"), [(500, False), (513, True)])
def test_memory_is_judged_where_it_is_known(megabytes: int, *, fails: bool) -> None:
    """More than 512 MB is too much."""
    assert bool(findings("KP322", evidence(good=ran(peak_bytes=megabytes * 1024**2)))) is fails


def test_memory_below_that_of_this_process_is_known_to_be_small() -> None:
    """The system shows the larger of the two: an upper bound, which is enough if it is low."""
    assert findings("KP322", evidence(good=ran(peak_bytes=100 * 1024**2, is_peak_exact=False))) == []


@pytest.mark.parametrize("run", [ran(), ran(peak_bytes=600 * 1024**2, is_peak_exact=False)])
def test_memory_that_cannot_be_measured_is_not_judged(run: Run) -> None:
    """Neither without a figure, nor with one that may be this process's own."""
    with pytest.raises(Unchecked):
        findings("KP322", evidence(good=run))


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


HUNG = ran(b"", status=None, ending=Ending.TIMED_OUT)


@pytest.mark.parametrize("code", ["KP101", "KP320", "KP323"])
def test_a_plugin_that_hangs_neither_answers_nor_ends(code: str) -> None:
    """Each of these promises is broken by a run that had to be killed."""
    (found,) = findings(code, evidence(good=HUNG))
    assert "did not end" in found.found


@pytest.mark.parametrize("status", [1, 255, 139, -11])
def test_whatever_is_not_status_0_is_no_answer(status: int) -> None:
    """A crash is no answer with exit status 0 either."""
    assert findings("KP101", evidence(good=ran(b"", status=status, stderr=b"no")))


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


def test_a_crash_on_an_empty_request_is_one() -> None:
    """It is not taken for a refusal by everyone."""
    assert findings("KP323", evidence(empty_input=ran(b"", status=-11)))


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


@pytest.mark.parametrize("code", ["KP130", "KP131"])
@pytest.mark.parametrize("stdout", [b"garbage", b""])
def test_without_a_good_answer_versions_say_nothing(code: str, stdout: bytes) -> None:
    """A plugin that prints garbage in every version has kept no promise about versions."""
    with pytest.raises(Unchecked):
        findings(code, evidence(good=ran(stdout), version_v1beta1=ran(stdout)))


def test_a_version_that_is_answered_in_another_is_not_known() -> None:
    """Neither a good answer nor a refusal: nothing shows that the plugin knows the version."""
    shown = evidence(version_v1beta1=ran(GOOD))
    shown = with_experiment(shown, "version v1beta1", V1.replace("v1", "v1beta1"))
    with pytest.raises(Unchecked):
        findings("KP131", shown)


READ_IN_ORDER = ("KP102", "KP103", "KP104", "KP105")
SPOILT = (
    b"garbage",
    GOOD.replace(b"/v1", b"/v1beta1"),
    GOOD.replace(b"Response", b"Request"),
    GOOD.replace(b"cacheDuration", b"cacheduration"),
)


@pytest.mark.parametrize(("at", "stdout"), [*enumerate(SPOILT)], ids=READ_IN_ORDER)
def test_what_cannot_be_read_so_far_passes_nothing(at: int, stdout: bytes) -> None:
    """The kubelet stops at the first thing that is wrong: what stands before it passes, the rest has no result."""
    shown = evidence(good=ran(stdout))
    assert [findings(code, shown) for code in READ_IN_ORDER[:at]] == [[]] * at
    assert findings(READ_IN_ORDER[at], shown)
    for code in (*READ_IN_ORDER[at + 1 :], "KP107"):
        with pytest.raises(Unchecked):
            findings(code, shown)


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


@pytest.mark.parametrize("code", ["KP111", "KP112", "KP114", "KP115", "KP119", "KP120"])
def test_without_credentials_nothing_is_said_of_them(code: str) -> None:
    """An answer with an empty auth breaks one promise, and keeps none about keys and passwords."""
    shown = evidence(good=ran(GOOD.replace(b'{"r.io":{"username":"u","password":"p"}}', b"{}")))
    assert findings("KP113", shown)
    with pytest.raises(Unchecked):
        findings(code, shown)


@pytest.mark.parametrize("code", ["KP310", "KP311", "KP312"])
def test_without_a_failure_nothing_is_said_of_failures(code: str) -> None:
    """A plugin that never failed has shown nothing of how it fails."""
    with pytest.raises(Unchecked):
        findings(code, evidence())


@pytest.mark.parametrize("code", ["KP301", "KP302", "KP303", "KP304", "KP305"])
def test_without_an_answer_there_is_no_secret_to_look_for(code: str) -> None:
    """What was never seen cannot be found elsewhere."""
    with pytest.raises(Unchecked):
        findings(code, evidence(good=ran(b"", status=1, stderr=b"no")))


def image_answer(auth: str = '{"r.io":{"username":"u","password":"p"}}', duration: str = '"1m"') -> Run:
    """A response with other credentials or another duration."""
    text = GOOD.decode().replace('{"r.io":{"username":"u","password":"p"}}', auth).replace('"1m"', duration)
    return ran(text.encode())


@pytest.mark.parametrize("code", ["KP107", "KP109", "KP110", "KP111"])
def test_without_a_duration_nothing_is_said_of_it(code: str) -> None:
    """KP108 reports that it is missing; the other checks have nothing to look at."""
    shown = evidence(good=image_answer(duration="null"))
    assert findings("KP108", shown)
    with pytest.raises(Unchecked, match="cacheDuration"):
        findings(code, shown)


def test_a_password_without_an_expiry_is_compared_with_nothing() -> None:
    """Only a token that contains its expiry can be compared with the cache duration."""
    with pytest.raises(Unchecked, match="expiry"):
        findings("KP111", evidence())


def test_anonymous_entries_have_no_credential_to_protect() -> None:
    """A wide key without a credential is not judged, and a response of such keys alone is not checked."""
    with pytest.raises(Unchecked):
        findings("KP115", evidence(good=image_answer('{"*.io":{"username":"","password":""}}')))


def test_the_line_end_of_an_invalid_response_does_not_count() -> None:
    """Only the end of a valid response is looked at."""
    with pytest.raises(Unchecked):
        findings("KP150", evidence(good=ran(b"garbage")))


@pytest.mark.parametrize(("code", "cache_type"), [("KP121", "Token"), ("KP122", "ServiceAccount")])
def test_each_cache_type_has_its_own_check_of_a_returned_token(code: str, cache_type: str) -> None:
    """The check of the other type has no result."""
    shown = evidence(account=ran())
    with pytest.raises(Unchecked, match="cacheType"):
        findings(code, with_plugin(shown, cache_type=cache_type))


def test_a_response_without_credentials_does_not_show_whether_it_returns_the_token() -> None:
    """A plugin that refuses the token with an empty response has not shown what it returns."""
    with pytest.raises(Unchecked):
        findings("KP121", evidence(account=image_answer("{}")))


def test_passwords_that_change_each_time_are_not_compared_between_images() -> None:
    """Whether they depend on the image cannot be told."""
    image = GOOD.replace(b"Registry", b"Image")
    again = image.replace(b'"p"', b'"q"')
    with pytest.raises(Unchecked, match="each"):
        findings("KP118", evidence(good=ran(image), again=ran(again), sibling=ran(image)))


@pytest.mark.parametrize("code", ["KP130", "KP214"])
def test_without_another_version_nothing_is_said_of_versions(code: str) -> None:
    """If every version must be supported, none is left that may be refused."""
    kind = PluginKind.CLUSTER if code == "KP214" else PluginKind.IMAGE
    shown = evidence(kind, version_v1=ran())
    if kind is PluginKind.CLUSTER:
        shown = cluster_evidence('{"token":"t"}')
    shown = with_plugin(shown, api_versions=(V1, EXEC))
    with pytest.raises(Unchecked, match="--api-version"):
        findings(code, shown)


@pytest.mark.parametrize(
    ("code", "name"), [*zip(FAILURES, INPUTS, strict=True), ("KP148", "image:_shell_words")]
)
def test_a_plugin_that_always_fails_shows_nothing_of_how_it_handles_input(code: str, name: str) -> None:
    """It may fail before it reads the input; a crash is found nevertheless."""
    failing = ran(b"", status=1, stderr=b"no")
    with pytest.raises(Unchecked):
        findings(code, evidence(PluginKind.IMAGE, **{"good": failing, name: failing}))


@pytest.mark.parametrize(
    ("code", "name"),
    [("KP216", "input"), ("KP218", "no_exec_info"), ("KP220", "huge_exec_info")],
)
def test_a_cluster_plugin_that_always_fails_shows_nothing_either(code: str, name: str) -> None:
    """It reads no input, and handles no exec info."""
    failing = ran(b"", status=1, stderr=b"no")
    with pytest.raises(Unchecked):
        findings(code, evidence(PluginKind.CLUSTER, **{"good": failing, name: failing}))


@pytest.mark.parametrize(("code", "name"), [("KP331", "no_reader"), ("KP332", "no_network")])
def test_circumstances_say_nothing_of_a_plugin_that_always_fails(code: str, name: str) -> None:
    """Its failure is not caused by them."""
    failing = ran(b"", status=1, stderr=b"no")
    with pytest.raises(Unchecked):
        findings(code, evidence(PluginKind.IMAGE, **{"good": failing, name: failing}))


def cluster_evidence(status: str) -> Evidence:
    """Evidence of one response of a cluster plugin."""
    text = f'{{"kind":"ExecCredential","apiVersion":"{EXEC}","status":{status}}}'
    shown = evidence(PluginKind.CLUSTER, good=ran(text.encode()))
    return with_experiment(shown, "good", EXEC)


def test_an_opaque_token_without_an_expiry_is_not_compared() -> None:
    """Nothing shows when it ends."""
    shown = cluster_evidence('{"token":"opaque"}')
    for code in ("KP210", "KP211", "KP212"):
        with pytest.raises(Unchecked, match=r"expir"):
            findings(code, shown)


def test_an_expiry_of_an_opaque_token_cannot_be_compared_with_the_token() -> None:
    """KP210 and KP212 pass with the timestamp alone; KP211 needs the token's own expiry."""
    shown = cluster_evidence('{"token":"opaque","expirationTimestamp":"2034-01-01T00:00:00Z"}')
    assert findings("KP210", shown) == findings("KP212", shown) == []
    with pytest.raises(Unchecked):
        findings("KP211", shown)


def test_without_a_token_nothing_is_said_of_one() -> None:
    """A certificate is not sent in a header."""
    pair = matching_pair()
    status = dumps({name: pair[name] for name in ("clientCertificateData", "clientKeyData")})
    with pytest.raises(Unchecked):
        findings("KP213", cluster_evidence(status))


LONG = GOOD.replace(b'"p"', b'"a-long-password"')


def test_a_program_that_ended_too_soon_shows_no_command_line() -> None:
    """Its arguments were never seen."""
    with pytest.raises(Unchecked, match=r"command line|/proc"):
        findings("KP302", evidence(good=ran(LONG)))


@pytest.mark.parametrize("code", ["KP303", "KP305"])
def test_a_home_of_ones_own_is_not_searched(code: str) -> None:
    """With --env HOME the kit's empty folder is not the plugin's."""
    shown = evidence(good=ran(LONG))
    shown = with_plugin(shown, env=(("HOME", "/home/me"),))
    with pytest.raises(Unchecked, match="HOME"):
        findings(code, shown)


@pytest.mark.parametrize("code", ["KP303", "KP304", "KP306"])
def test_a_temporary_folder_of_ones_own_is_not_searched(code: str) -> None:
    """With --env TMPDIR likewise."""
    shown = evidence(good=ran(LONG))
    shown = with_plugin(shown, env=(("TMPDIR", "/var/tmp"),))
    with pytest.raises(Unchecked, match="TMPDIR"):
        findings(code, shown)


@pytest.mark.parametrize("kind", list(PluginKind))
def test_standard_error_is_searched_for_the_secrets_of_responses(kind: PluginKind) -> None:
    """Without a response that has one, a clean standard error proves nothing."""
    with pytest.raises(Unchecked):
        findings("KP301", evidence(kind, good=ran(b"", status=1, stderr=b"no")))


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


def test_without_a_good_answer_circumstances_say_nothing() -> None:
    """What fails anyway is not blamed on the locale."""
    broken = ran(b"", status=1, stderr=b"no")
    with pytest.raises(Unchecked):
        findings("KP327", evidence(good=broken, locale_C=broken))


@pytest.mark.parametrize(
    ("stdout", "code"),
    [
        (b"", "KP102"),
        (b"[]", "KP102"),
        (b"\xef\xbb\xbf" + GOOD, "KP102"),
        (GOOD + GOOD, "KP102"),
        (b"null", "KP103"),
        (GOOD.replace(b"/v1", b"/v1beta1"), "KP103"),
        (GOOD.replace(b"/v1", b"/a/v1"), "KP103"),
        (GOOD.replace(b"Response", b"Request"), "KP104"),
        (GOOD.replace(b"CredentialProviderResponse", b""), "KP104"),
        (GOOD.replace(b"cacheDuration", b"cacheduration"), "KP105"),
        (GOOD.replace(b'"username":"u"', b'"username":1'), "KP105"),
        (GOOD.replace(b'"username":"u"', b'"username":"u","username":"v"'), "KP105"),
        (GOOD.replace(b'"1m"', b'"1 minute"'), "KP107"),
        (GOOD.replace(b'"1m"', b"60"), "KP107"),
    ],
)
def test_what_the_kubelet_refuses_has_one_code(stdout: bytes, code: str) -> None:
    """Each way to spoil an answer belongs to one check."""
    with pytest.raises(PluginProtocolError) as caught:
        decode_response("plugin", V1, stdout)
    assert classify(caught.value).code == code


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
def test_keys_that_can_never_match_are_known(key: str, *, never: bool) -> None:
    """A key is good if some image could match it."""
    assert bool(why_unmatchable(key)) is never


def test_the_key_of_docker_hub_serves_its_images() -> None:
    """The kubelet's fallback for Docker Hub counts as a match."""
    assert serves("https://index.docker.io/v1/", "docker.io/library/busybox")
    assert not serves("https://index.docker.io/v1/", "quay.io/x/y")
