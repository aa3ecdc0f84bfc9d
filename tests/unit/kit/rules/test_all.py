"""Rules are functions of what the runs have shown; here the runs are made up."""

import pytest

from keyferry._core.values import replace
from keyferry.invoke.process import Ending, ProcessOutcome
from keyferry.kit.codes.catalogue import CHECKS
from keyferry.kit.lab.evidence import Evidence, Unchecked, Violation
from keyferry.kit.lab.experiments import Experiment, Surroundings
from keyferry.kit.lab.launch import Run
from keyferry.kit.lab.plugin_under_test import PluginUnderTest
from keyferry.kit.lab.processes import Process, can_look
from keyferry.kit.lab.secrets import Secrets
from keyferry.kit.plugin_kind import PluginKind
from keyferry.kit.rules.all import RULES
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
    return Run(ProcessOutcome(ending, status, stdout, stderr, seconds), **other)  # type: ignore[arg-type] # by name


def evidence(kind: PluginKind = PluginKind.IMAGE, **runs: Run) -> Evidence:
    """Evidence of some runs; an underscore in a name stands for a space."""
    named = {name.replace("_", " "): run for name, run in {"good": ran(), **runs}.items()}
    experiments = {name: Experiment(name, api_version=V1, image="r.io/x") for name in named}
    plugin = PluginUnderTest("/plugin", kind, images=("r.io/x",))
    return Evidence(plugin, experiments, named, Secrets(), Surroundings("/h", "/t", {}), 0)


def findings(code: str, shown: Evidence) -> list[Violation]:
    """What a check finds."""
    return list(RULES[code].judge(shown))


def test_every_code_has_a_rule_and_every_rule_a_code() -> None:
    """The table of codes and the table of rules are the same."""
    assert RULES.keys() == CHECKS.keys()


@pytest.mark.parametrize(
    ("code", "seconds", "fails"),
    [("KP321", 9.9, False), ("KP321", 10.5, True), ("KP320", 59.0, False), ("KP320", 60.5, True)],
)
def test_time_is_judged_by_its_bounds(code: str, seconds: float, *, fails: bool) -> None:
    """Ten seconds are slow, and a minute is too late even where the time limit is longer."""
    assert bool(findings(code, evidence(good=ran(seconds=seconds)))) is fails


@pytest.mark.parametrize(("megabytes", "fails"), [(None, False), (500, False), (513, True)])
def test_memory_is_judged_where_it_is_known(megabytes: int | None, *, fails: bool) -> None:
    """More than 512 MB is too much; what cannot be measured is not judged."""
    peak = None if megabytes is None else megabytes * 1024**2
    assert bool(findings("KP322", evidence(good=ran(peak_bytes=peak)))) is fails


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
    beta = Experiment("version v1beta1", api_version=V1.replace("v1", "v1beta1"), image="r.io/x")
    shown = replace(shown, experiments={**shown.experiments, "version v1beta1": beta})
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
    beta = Experiment("version v1beta1", api_version=V1.replace("v1", "v1beta1"), image="r.io/x")
    shown = replace(shown, experiments={**shown.experiments, "version v1beta1": beta})
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
    shown = replace(shown, experiments={"good": Experiment("good", api_version=EXEC)})
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


@pytest.mark.parametrize("code", ["KP302", "KP303", "KP304", "KP305"])
def test_without_an_answer_there_is_no_secret_to_look_for(code: str) -> None:
    """What was never seen cannot be found elsewhere."""
    with pytest.raises(Unchecked):
        findings(code, evidence(good=ran(b"", status=1, stderr=b"no")))


def test_a_held_pipe_is_reported_once() -> None:
    """A child that holds the output is a check of its own, and not one more process left behind."""
    run = ran(left_behind=(Process(1, "sleep"),), held_output=True)
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
