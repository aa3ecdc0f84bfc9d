"""Lookups for an image and for a registry as a whole, with the providers of a node or its agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from keyferry.errors import ConfigError, EnvironmentProblem, Kind, PluginNotFoundError
from keyferry.images.load import ProviderSettings, load_providers, make_running_providers
from keyferry.images.lookup import Providers
from keyferry.images.provider.agent import AgentUse, check_agent, choose_agent
from keyferry.images.registries import (
    RegistryOutcome,
    exact_registries,
    lookup_registry,
    lookup_registry_async,
    paths_of,
)
from support.function_plugins import answering, provider
from support.plugins import Node, provider_entry, write_config, write_executable
from support.scripted import cache_hits


def test_hits_are_kept_for_providers_that_others_go_on_using() -> None:
    """A reload makes another object for the same providers."""
    made = provider("p", ["one.example"], answering({"one.example": ("u", "p")}))
    before = Providers([made])
    for _ in range(10):
        before.lookup("one.example/app")
    assert cache_hits(before) == cache_hits(Providers([made])) == {"p": 9}


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


def add(node: Node, name: str, *patterns: str, password: str = "pass", key: str = HOST) -> None:
    """Add a provider with a plugin that answers for *key*."""
    node.provider(name, matchImages=list(patterns))
    node.recording(name=name, auth={key: ("user", password)})


def test_one_provider_answers_for_its_host(node: Node) -> None:
    add(node, "a", HOST)
    found = lookup_registry(node.load(), HOST)
    assert found.outcome is RegistryOutcome.FOUND
    assert found.credential is not None
    assert (found.credential.password, found.candidates) == ("pass", (f"{HOST}/keyferry",))
    assert found.expires_ns is not None
    assert node.runs("a") == [f"{HOST}/keyferry"]


def test_the_same_without_blocking(node: Node) -> None:
    add(node, "a", f"{HOST}/one", f"{HOST}/two")
    providers = node.load()
    found = asyncio.run(lookup_registry_async(providers, HOST))
    assert found == lookup_registry(providers, HOST)
    assert found.outcome is RegistryOutcome.FOUND


def test_providers_by_path_answer_if_they_agree(node: Node) -> None:
    add(node, "a", f"{HOST}/one", f"{HOST}/two/")
    found = lookup_registry(node.load(), HOST)
    assert found.outcome is RegistryOutcome.FOUND
    assert found.candidates == (f"{HOST}/one", f"{HOST}/two/keyferry")


def test_providers_by_path_that_disagree_are_not_guessed(node: Node) -> None:
    add(node, "a", f"{HOST}/one", password="first")
    add(node, "b", f"{HOST}/two", password="second")
    found = lookup_registry(node.load(), HOST)
    assert (found.outcome, found.credential) == (RegistryOutcome.AMBIGUOUS, None)
    assert found.candidates == (f"{HOST}/one", f"{HOST}/two")


def test_a_login_for_one_path_is_not_given_for_all(node: Node) -> None:
    """One candidate has a login and another has none."""
    add(node, "a", HOST, f"{HOST}/one", key=f"{HOST}/one")
    assert lookup_registry(node.load(), HOST).outcome is RegistryOutcome.AMBIGUOUS


def test_a_failure_is_no_absence(node: Node) -> None:
    node.provider("a")
    node.shell("exit 3", "a")
    found = lookup_registry(node.load(), HOST)
    assert found.outcome is RegistryOutcome.FAILED
    assert [failure.provider for failure in found.failures] == ["a"]


@pytest.mark.parametrize("host", ["other.example", f"{HOST}:5000", "example", "bad host", ""])
def test_a_host_of_no_provider_runs_nothing(node: Node, host: str) -> None:
    add(node, "a", HOST)
    assert lookup_registry(node.load(), host, timeout_seconds=5).outcome is RegistryOutcome.NONE
    assert node.runs("a") == []


def test_docker_hub_is_asked_for_one_of_its_own_images(node: Node) -> None:
    add(node, "a", "docker.io", key="docker.io")
    assert lookup_registry(node.load(), "docker.io").candidates == ("docker.io/library/keyferry",)


def test_a_path_that_no_image_has_matches_none(node: Node) -> None:
    add(node, "a", f"{HOST}/UPPER")
    assert lookup_registry(node.load(), HOST).outcome is RegistryOutcome.NONE


def test_paths_and_exact_hosts(node: Node) -> None:
    patterns = [HOST, f"{HOST}/team", "*.example", "reg.io:5000", "reg.io/x", "*.[a-", "docker.io"]
    node.provider("a", matchImages=[each for each in patterns if each != "*.[a-"])
    node.recording(name="a")
    configs = node.load().configs
    assert paths_of(configs, HOST) == ("", "/team")
    assert paths_of(configs, "other.example") == ("",)
    assert paths_of(configs, "nothing.here.io") == ()
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
