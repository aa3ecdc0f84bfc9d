"""Rules are functions of what the runs have shown; here the runs are made up."""

import pytest

from keyferry.errors import PluginProtocolError
from keyferry.images.plugin import decode_response
from keyferry.invoke.process import Ending, Outcome
from keyferry.kit.codes import CHECKS, checks_for
from keyferry.kit.evidence import Evidence, Finding, Unchecked
from keyferry.kit.experiments import Experiment, Surroundings
from keyferry.kit.hidden import Secrets
from keyferry.kit.launch import Run
from keyferry.kit.processes import Process
from keyferry.kit.rules import RULES
from keyferry.kit.rules_answer import classify
from keyferry.kit.rules_content import serves, why_never
from keyferry.kit.subject import CLUSTER, IMAGE, Subject

V1 = "credentialprovider.kubelet.k8s.io/v1"
GOOD = (
    f'{{"kind":"CredentialProviderResponse","apiVersion":"{V1}","cacheKeyType":"Registry","cacheDuration":"1m",'
    '"auth":{"r.io":{"username":"u","password":"p"}}}\n'
).encode()


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
    return Run(Outcome(ending, status, stdout, stderr, seconds), **other)  # type: ignore[arg-type] # by name


def evidence(kind: str = IMAGE, **runs: Run) -> Evidence:
    """Evidence of some runs; an underscore in a name stands for a space."""
    named = {name.replace("_", " "): run for name, run in {"good": ran(), **runs}.items()}
    experiments = {name: Experiment(name, api_version=V1, image="r.io/x") for name in named}
    subject = Subject("/plugin", kind, images=("r.io/x",))
    return Evidence(subject, experiments, named, Secrets(), Surroundings("/h", "/t", {}), 0)


def findings(code: str, shown: Evidence) -> list[Finding]:
    """What a check finds."""
    return list(RULES[code].judge(shown))


def test_every_code_has_a_rule_and_every_rule_a_code() -> None:
    """The table of codes and the table of rules are the same."""
    assert RULES.keys() == CHECKS.keys()


def test_the_two_kinds_share_only_what_is_for_both() -> None:
    """Each kind has its own checks and all that begin with KP3."""
    image, cluster = ({check.code for check in checks_for(kind)} for kind in (IMAGE, CLUSTER))
    assert image | cluster == CHECKS.keys()
    assert image & cluster == {code for code in CHECKS if code.startswith("KP3")}


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.code)
def test_texts_are_in_house_style(check: object) -> None:
    """Titles, reasons and advice begin in lower case and have no final stop."""
    for name in ("title", "why", "fix"):
        text = getattr(check, name)
        assert text
        assert text[0].islower() or not text[0].isalpha()
        assert not text.endswith(".")


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
    ("status", "fails"), [(0, False), (125, False), (126, True), (127, True), (-11, True)]
)
def test_statuses_up_to_125_are_a_plugins_own(status: int, *, fails: bool) -> None:
    """A shell's statuses and signals count as a crash."""
    assert bool(findings("KP323", evidence(foreign=ran(status=status)))) is fails


def test_a_held_pipe_is_reported_once() -> None:
    """A child that holds the output is a check of its own, and not one more process left behind."""
    run = ran(left_behind=(Process(1, "sleep"),), held_output=True)
    assert findings("KP324", evidence(good=run)) == []
    (found,) = findings("KP325", evidence(good=run))
    assert "sleep" in found.found


def test_where_nobody_can_look_nothing_is_claimed() -> None:
    """Without /proc the check for processes left behind has no result."""
    with pytest.raises(Unchecked):
        findings("KP324", evidence(good=ran(left_behind=None)))


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
    assert classify(caught.value) == code


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
    assert bool(why_never(key)) is never


def test_the_key_of_docker_hub_serves_its_images() -> None:
    """The kubelet's fallback for Docker Hub counts as a match."""
    assert serves("https://index.docker.io/v1/", "docker.io/library/busybox")
    assert not serves("https://index.docker.io/v1/", "quay.io/x/y")
