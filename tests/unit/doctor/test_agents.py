"""Lines about node agents: whether one answers, its version and its config."""

from __future__ import annotations

import pytest

from keyferry import __version__
from keyferry.doctor.facts import AgentFacts, AgentFailure, KubeletFacts, NodeFacts
from keyferry.doctor.health import HealthLevel, Hints
from keyferry.doctor.provider_checks import check_agents
from keyferry.images.node.kubelet import Kubelets


def lines(*, is_online: bool = True, **facts: object) -> list[tuple[HealthLevel, str]]:
    agent = AgentFacts(socket="/run/a.sock", named_by="KEYFERRY_AGENT", **{"is_there": True, **facts})  # type: ignore[arg-type] # its fields
    node = NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets()), is_online=is_online, agents=(agent,))
    return [(line.level, line.text) for line in check_agents(node, Hints())]


WHERE = "/run/a.sock (named by KEYFERRY_AGENT)"


def test_an_agent_is_not_asked_unless_it_is_wanted() -> None:
    assert lines(is_online=False) == [(HealthLevel.OK, f"{WHERE} is there; --online asks it")]


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        ({"is_there": False}, HealthLevel.WARNING, f"{WHERE} is not there; plugins are run without it"),
        (
            {"problem": "no"},
            HealthLevel.WARNING,
            f"{WHERE} gives no answer, and plugins are run without it: no",
        ),
        ({"is_closed": True}, HealthLevel.UNKNOWN, f"{WHERE} answers; this user may not see its status"),
        ({"version": __version__}, HealthLevel.OK, f"{WHERE} answers: version {__version__}"),
        (
            {"version": "0.0.9"},
            HealthLevel.OK,
            f"{WHERE} answers: version 0.0.9; this command has version {__version__}",
        ),
    ],
)
def test_each_state_has_its_line(facts: dict[str, object], level: HealthLevel, text: str) -> None:
    assert lines(is_online=True, **facts) == [(level, text)]


def test_what_is_wrong_with_an_agent_that_answers_has_lines_of_its_own() -> None:
    _, config, reload = lines(
        version=__version__, config="/other", has_same_config=False, reload_problems=("/c: broken", "more")
    )
    assert config[0] is reload[0] is HealthLevel.WARNING
    assert "its config /other is not the one above" in config[1]
    assert reload[1] == "its last reload was refused: /c: broken; and 1 more"


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        ({"is_there": False}, "run"),
        ({"problem": "no"}, "status"),
        ({"has_same_config": False}, "status"),
        ({"reload_problems": ("broken",)}, "status"),
    ],
)
def test_a_command_asks_the_same_agent(facts: dict[str, object], command: str) -> None:
    for named_by, more in (("KEYFERRY_AGENT", " --socket /run/a.sock"), ("its usual place", "")):
        agent = AgentFacts(socket="/run/a.sock", named_by=named_by, **{"is_there": True, **facts})  # type: ignore[arg-type] # its fields
        node = NodeFacts(kubelet=KubeletFacts(kubelets=Kubelets()), is_online=True, agents=(agent,))
        found = [line.next_command for line in check_agents(node, Hints()) if line.next_command]
        assert found == [f"keyferry agent {command}{more}"]


def test_a_variable_that_names_no_agent_is_said_to_name_none() -> None:
    node = NodeFacts(
        kubelet=KubeletFacts(kubelets=Kubelets()),
        agents=(AgentFacts(socket="foo", named_by="KEYFERRY_AGENT"),),
    )
    [line] = check_agents(node, Hints())
    assert line.level is HealthLevel.WARNING
    assert line.text == (
        "KEYFERRY_AGENT is 'foo', expected 'off', 'auto' or the absolute path of a socket; "
        "plugins are run without it"
    )


def test_a_provider_that_failed_within_the_hour_is_a_warning() -> None:
    """What came after the failure is not known, so an old one is only told."""
    failures = (
        AgentFailure(
            provider="ecr", at="2026-11-18T01:00:00Z", message="exit status 3: no role", is_recent=True
        ),
        AgentFailure(provider="gcr", at="2026-11-01T01:00:00Z", message="timed out", is_recent=False),
    )
    _, recent, old = lines(version=__version__, failures=failures)
    assert recent == (
        HealthLevel.WARNING,
        "its provider ecr last failed at 2026-11-18T01:00:00Z: exit status 3: no role",
    )
    assert old[0] is HealthLevel.OK
