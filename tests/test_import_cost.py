"""What an import loads, as an exact set of modules: time is only benchmarked."""

import os
import subprocess
import sys

import pytest

import keyferry

SOURCE = os.path.dirname(os.path.dirname(keyferry.__file__))
PROBE = """
import sys
sys.path.insert(0, {source!r})
old = set(sys.modules)
import {name}
print(*sorted(set(sys.modules) - old))
"""
HEAVY = {
    "argparse",
    "asyncio",
    "concurrent.futures",
    "dataclasses",
    "http.client",
    "importlib.metadata",
    "inspect",
    "logging",
    "ssl",
    "subprocess",
    "typing",
    "yaml",
}
# What would undo the start of a plugin that needs no network: regular expressions are half of it.
COSTLY = {
    "base64",
    "cryptography",
    "enum",
    "functools",
    "hashlib",
    "json",
    "re",
    "socket",
    "urllib",
    "urllib.parse",
}
PLUGINS = ("acr", "aks", "docker_helper", "ecr", "eks", "gcr", "gke", "oidc", "static")


def loaded_by(name: str) -> set[str]:
    """The modules that importing *name* adds to a fresh, isolated interpreter."""
    run = [sys.executable, "-I", "-S", "-c", PROBE.format(source=SOURCE, name=name)]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


def test_the_package_alone_loads_nothing() -> None:
    """``import keyferry`` is one module, its own."""
    assert loaded_by("keyferry") == {"keyferry"}


@pytest.mark.parametrize(
    "name",
    [
        "keyferry.errors",
        "keyferry.api.meta",
        "keyferry.api.credentialprovider.v1",
        "keyferry.api.credentialprovider.v1beta1",
        "keyferry.api.credentialprovider.v1alpha1",
        "keyferry.api.clientauthentication.v1",
        "keyferry.sdk.image",
        "keyferry.sdk.cluster",
        "keyferry.sdk.flags",
        "keyferry.sdk.http",
        *(f"keyferry_plugins.{name}" for name in PLUGINS),
    ],
)
def test_what_a_plugin_needs_is_light(name: str) -> None:
    """A plugin is a fresh interpreter for every call, so nothing costly is loaded before it is used."""
    assert (HEAVY | COSTLY).isdisjoint(loaded_by(name))


def test_the_codec_is_light() -> None:
    """What reads answers, in the library, loads nothing heavy either."""
    assert HEAVY.isdisjoint(loaded_by("keyferry.api.codec"))


def test_the_errors_import_nothing() -> None:
    """The module of exceptions needs no other."""
    assert loaded_by("keyferry.errors") == {"keyferry", "keyferry.errors"}


def test_loading_providers_leaves_out_what_a_lookup_does_not_need() -> None:
    """Event loops, TLS, HTTP, metrics and tables are imported by those who use them."""
    unwanted = {
        "argparse",
        "asyncio",
        "concurrent.futures",
        "http.client",
        "importlib.metadata",
        "logging",
        "prometheus_client",
        "rich",
        "ssl",
        "subprocess",
        "yaml",
    }
    assert unwanted.isdisjoint(loaded_by("keyferry.images.load"))


def test_a_heavy_import_would_be_seen() -> None:
    """The probe tells what is loaded, also below the module it imports."""
    assert {"json", "json.decoder"} <= loaded_by("json")
