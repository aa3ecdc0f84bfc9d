"""Which agent is asked: the one that is given, else that of the environment, else one that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.images.provider.agent import AgentUse, check_agent, choose_agent


@pytest.mark.parametrize(
    ("given", "variable", "place"),
    [
        ("off", "/a.sock", ""),
        ("/b.sock", "off", "/b.sock"),
        ("/b.sock", "/a.sock", "/b.sock"),
        ("auto", "/a.sock", "/a.sock"),
        ("auto", "off", ""),
        (None, "off", ""),
        (None, "/a.sock", "/a.sock"),
    ],
)
def test_what_is_given_goes_before_the_environment(given: str | None, variable: str, place: str) -> None:
    expected = AgentUse(place=place) if place else None
    assert choose_agent(given, {"KEYFERRY_AGENT": variable}) == expected


def test_an_agent_that_nobody_names_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyferry._net.agent.ROOT_SOCKET", str(tmp_path / "keyferry" / "agent.sock"))
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert choose_agent(None, environ) is None
    assert choose_agent("auto", environ) == AgentUse(place=str(tmp_path / "keyferry" / "agent.sock"))
    (tmp_path / "keyferry").mkdir()
    (tmp_path / "keyferry" / "agent.sock").touch()
    assert choose_agent(None, environ) == AgentUse(place=str(tmp_path / "keyferry" / "agent.sock"))


@pytest.mark.parametrize("given", [None, "auto"])
def test_a_variable_that_names_no_agent_is_refused_where_it_counts(given: str | None) -> None:
    environ = {"KEYFERRY_AGENT": "foo"}
    with pytest.raises(EnvironmentProblem, match="KEYFERRY_AGENT is 'foo', expected 'off', 'auto' or the"):
        choose_agent(given, environ)
    assert choose_agent("/a.sock", environ) == AgentUse(place="/a.sock")
    assert choose_agent("off", environ) is None


def test_a_word_that_names_no_agent_is_refused() -> None:
    assert [check_agent(each) for each in ("off", "auto", "/run/a.sock")] == ["off", "auto", "/run/a.sock"]
    with pytest.raises(ValueError, match="agent is 'on', expected 'off', 'auto' or the absolute path"):
        check_agent("on")
