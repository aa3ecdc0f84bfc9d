"""Lookup for a registry as a whole: one answer, or none."""

from __future__ import annotations

import asyncio

import pytest

from keyferry.images.registries import (
    RegistryOutcome,
    exact_registries,
    lookup_registry,
    lookup_registry_async,
    paths_of,
)
from support.plugins import Node

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
