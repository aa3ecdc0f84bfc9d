"""Lines about the container runtime and its mirrors."""

import pytest

from keyferry.doctor.checks.runtime import check_mirrors, check_runtime
from keyferry.doctor.facts import MirrorFacts, RuntimeFacts
from keyferry.doctor.health import HealthLevel
from keyferry.doctor.hints import Hints
from keyferry.pulls.cri.client import RuntimeInfo
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors, RuntimeKind

CRIO = RuntimeKind.CRIO


@pytest.mark.parametrize(
    ("facts", "level", "command"),
    [
        (RuntimeFacts("/s", "here", True, CRIO), HealthLevel.OK, ""),
        (RuntimeFacts("/s", "here", False, None), HealthLevel.PROBLEM, ""),
        (RuntimeFacts("/s", "here", None, CRIO), HealthLevel.PROBLEM, "systemctl status crio"),
        (RuntimeFacts(), HealthLevel.UNKNOWN, ""),
    ],
)
def test_the_socket_is_there_or_not(facts: RuntimeFacts, level: HealthLevel, command: str) -> None:
    first = next(check_runtime(facts, Hints(), is_online=False))
    assert (first.level, first.next_command) == (level, command)


def test_the_version_is_told_online() -> None:
    known = RuntimeFacts("/s", "here", True, CRIO, version=RuntimeInfo("cri-o", "1.31", "v1"))
    assert [each.text for each in check_runtime(known, Hints(), is_online=True)][1] == "cri-o 1.31, CRI v1"
    silent = RuntimeFacts("/s", "here", True, CRIO, version_problem="it does not answer")
    assert [each.level for each in check_runtime(silent, Hints(), is_online=True)][1] is HealthLevel.UNKNOWN
    assert list(check_runtime(None, Hints(), is_online=True)) == []


def test_mirrors_of_cri_o_get_no_credential_and_blocked_names_are_warned_of() -> None:
    mirror = Endpoint("https://m", "m", "https://m/v2", offer=CredentialOffer.WITHHELD)
    facts = (
        MirrorFacts("reg.io", Mirrors(CRIO, "/f", (mirror,))),
        MirrorFacts("bad.io", Mirrors(CRIO, "/f", is_blocked=True)),
        MirrorFacts("every other registry", Mirrors(CRIO, "/f", (mirror,))),
    )
    own, blocked, others = check_mirrors(facts, Hints())
    assert (own.level, own.text.endswith("CRI-O does not send them to another host")) == (
        HealthLevel.OK,
        True,
    )
    assert (blocked.level, blocked.text) == (HealthLevel.WARNING, "/f blocks it: CRI-O pulls none of it")
    assert others.next_command == ""


def test_a_file_that_cannot_be_used_is_named_once() -> None:
    broken = Mirrors(CRIO, "/f", problem="it is not TOML")
    (line,) = check_mirrors((MirrorFacts("a.io", broken), MirrorFacts("b.io", broken)), Hints())
    assert (line.level, line.text) == (HealthLevel.PROBLEM, "/f: it is not TOML")
