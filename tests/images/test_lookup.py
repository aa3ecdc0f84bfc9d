"""Lookups for an image and for a registry as a whole, with the providers of a node or its agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from keyferry import load_providers
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import ConfigError, EnvironmentProblem, Kind, PluginExitError, PluginNotFoundError
from keyferry.images.load import ProviderSettings, make_running_providers
from keyferry.images.provider.agent import AgentUse, check_agent, choose_agent
from keyferry.images.provider.provider import Provider
from keyferry.images.registries import (
    RegistryAnswer,
    RegistryOutcome,
    exact_registries,
    lookup_registry,
    lookup_registry_async,
)
from support.function_plugins import answering, failing, provider, providers
from support.plugins import provider_entry, write_config, write_executable

RESPONSE = (
    '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", '
    '"cacheKeyType": "Registry", "auth": {"there.io": {"username": "u", "password": "p"}}}'
)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """The paths of a config with two providers, of which one has no executable, and of the bin dir."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    write_executable(bin_dir / "there", f"#!/bin/sh\ncat >/dev/null\nprintf '%s' '{RESPONSE}'\n")
    entries = [provider_entry(name=name, matchImages=[f"{name}.io"]) for name in ("there", "gone")]
    return str(write_config(tmp_path / "providers.json", entries)), str(bin_dir)


def test_a_plugin_that_is_gone_fails_with_its_path_and_the_change_of_its_folder(
    paths: tuple[str, str],
) -> None:
    config, bin_dir = paths
    providers, problems = make_running_providers(config, bin_dir, ProviderSettings())
    assert [problem.code for problem in problems] == ["KF141"]
    assert [each.username for each in providers.lookup("there.io/app").credentials] == ["u"]
    (failure,) = providers.lookup("gone.io/app").kubelet_failures
    error = failure.error
    assert isinstance(error, PluginNotFoundError)
    assert (failure.provider, error.kind, error.path) == ("gone", Kind.NOT_FOUND, f"{bin_dir}/gone")
    assert error.folder_changed_ns == Path(bin_dir).stat().st_mtime_ns


def test_providers_that_are_loaded_need_every_executable(paths: tuple[str, str]) -> None:
    """As a kubelet that starts now."""
    with pytest.raises(ConfigError, match="gone is missing"):
        load_providers(*paths)


def test_a_config_that_no_kubelet_takes_has_all_of_its_problems(paths: tuple[str, str]) -> None:
    config, bin_dir = paths
    text = Path(config).read_text(encoding="utf-8")
    Path(config).write_text(text.replace("there.io", "[::1"), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        make_running_providers(config, bin_dir, ProviderSettings())
    assert "KF141" in [problem.code for problem in refused.value.problems]
    assert len(refused.value.problems) == 2


HOST = "registry.example"
Plan = tuple[list[str], str, str]


def ask(host: str, *plans: Plan) -> tuple[RegistryAnswer, list[str]]:
    """Look a registry up; each provider has patterns, a key and a password. Return also the images it was asked for."""
    asked: list[str] = []

    def planned(name: str, patterns: list[str], key: str, password: str) -> Provider:
        answer = answering({key: ("user", password)})

        def plugin(
            request: CredentialProviderRequest, timeout_seconds: float | None = None
        ) -> tuple[CredentialProviderResponse, float]:
            asked.append(request.image)
            return answer(request, timeout_seconds)

        return provider(name, patterns, plugin)

    world = providers(*(planned(str(number), *plan) for number, plan in enumerate(plans)))
    found = lookup_registry(world, host)
    assert asyncio.run(lookup_registry_async(world, host)) == found
    return found, asked


def test_one_provider_answers_for_its_host() -> None:
    """And the same without blocking."""
    found, asked = ask(HOST, ([HOST], HOST, "pass"))
    assert found.outcome is RegistryOutcome.FOUND
    assert found.credential is not None
    assert (found.credential.password, found.candidates) == ("pass", (f"{HOST}/keyferry",))
    assert found.expires_ns is not None
    assert asked == [f"{HOST}/keyferry"]


@pytest.mark.parametrize(
    ("plans", "outcome", "candidates"),
    [
        pytest.param(
            [([f"{HOST}/one", f"{HOST}/two/"], HOST, "pass")],
            RegistryOutcome.FOUND,
            (f"{HOST}/one", f"{HOST}/two/keyferry"),
            id="paths that agree",
        ),
        pytest.param(
            [([f"{HOST}/one"], HOST, "first"), ([f"{HOST}/two"], HOST, "second")],
            RegistryOutcome.AMBIGUOUS,
            (f"{HOST}/one", f"{HOST}/two"),
            id="paths that disagree",
        ),
        pytest.param(
            [([HOST, f"{HOST}/one"], f"{HOST}/one", "pass")],
            RegistryOutcome.AMBIGUOUS,
            (f"{HOST}/keyferry", f"{HOST}/one"),
            id="a login for one path alone",
        ),
        pytest.param([([f"{HOST}/UPPER"], HOST, "pass")], RegistryOutcome.NONE, (), id="a path of no image"),
        pytest.param(
            [(["*.example"], HOST, "pass")],
            RegistryOutcome.FOUND,
            (f"{HOST}/keyferry",),
            id="a pattern of hosts",
        ),
    ],
)
def test_providers_by_path_answer_only_if_they_agree(
    plans: list[Plan], outcome: RegistryOutcome, candidates: tuple[str, ...]
) -> None:
    """What they disagree about is not guessed."""
    found, _ = ask(HOST, *plans)
    assert (found.outcome, found.candidates) == (outcome, candidates)
    assert (found.credential is not None) is (outcome is RegistryOutcome.FOUND)


def test_a_failure_is_no_absence() -> None:
    found = lookup_registry(providers(provider("a", [HOST], failing(lambda: PluginExitError("a", 3)))), HOST)
    assert found.outcome is RegistryOutcome.FAILED
    assert [failure.provider for failure in found.failures] == ["a"]


@pytest.mark.parametrize("host", ["other.example", f"{HOST}:5000", "example", "bad host", ""])
def test_a_host_of_no_provider_runs_nothing(host: str) -> None:
    found, asked = ask(host, ([HOST], HOST, "pass"))
    assert (found.outcome, asked) == (RegistryOutcome.NONE, [])


def test_docker_hub_is_asked_for_one_of_its_own_images() -> None:
    found, _ = ask("docker.io", (["docker.io"], "docker.io", "pass"))
    assert found.candidates == ("docker.io/library/keyferry",)


def test_exact_hosts_are_told_from_patterns() -> None:
    patterns = [HOST, f"{HOST}/team", "*.example", "reg.io:5000", "reg.io/x", "docker.io"]
    configs = providers(provider("a", patterns, answering({}))).configs
    assert exact_registries(configs) == (HOST, "reg.io:5000", "docker.io")


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
