"""What an import loads, as an exact set of modules: time is only benchmarked."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import keyferry
from support.agents import running_agent
from support.commands import Node, plain_pod
from support.federation import account_token, rule_of
from support.federation import write_config as write_federation
from support.plugins import Node as PluginNode
from support.sdk_plugins import request_bytes
from support.starts import ASKING, LOOKING_UP, READING, YAML, loaded_by_command

SOURCE = os.path.dirname(os.path.dirname(keyferry.__file__))
PROBE = """
import sys
sys.path.insert(0, {source!r})
old = set(sys.modules)
import {name}
print(*sorted(set(sys.modules) - old))
"""
FEDERATE = """
import sys
sys.path.insert(0, {source!r})
from keyferry_plugins.federate import main
main()
"""
MINIMAL = """
import sys
sys.path.insert(0, {source!r})
from keyferry.sdk import Response, serve
serve(lambda request: Response.for_registry(request, "user", "word", cache_seconds=60))
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
# What a token that is passed on needs beside the modules of a plugin that answers at once.
FEDERATING = {
    "binascii",
    *(f"keyferry._core.{name}" for name in ("jwt_claims", "paths")),
    *(f"keyferry.api.{name}" for name in ("codec", "federation")),
    *(
        f"keyferry.api.federation.{name}"
        for name in ("addresses", "decode", "presets", "rules", "settings", "templates", "v1alpha1")
    ),
    "keyferry.errors.document",
    *(f"keyferry.sdk.{name}" for name in ("federation", "files", "flags", "jwt_claims", "values")),
    "keyferry_plugins",
    *(f"keyferry_plugins.{name}" for name in ("federate", "federation")),
    *(
        f"keyferry_plugins.federation.{name}"
        for name in ("answer", "config", "options", "parameters", "subject", "telling")
    ),
}
PLUGINS = ("acr", "aks", "docker_helper", "ecr", "eks", "federate", "gcr", "gke", "oidc", "static")


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


@pytest.mark.skipif(sys.platform == "win32", reason="a shim is for Unix")
def test_the_shim_is_lighter_still() -> None:
    """A kubelet executes it for every pull; even ``os`` would take a tenth of its time."""
    own = {name for name in loaded_by("keyferry.bridge.shim") if name.partition(".")[0] != "keyferry"}
    assert own <= {"posix", "time"}


def test_a_token_that_is_passed_on_needs_nothing_costly(tmp_path: Path) -> None:
    """A whole run of keyferry-federate, config and response included, loads what it uses, and no other module."""
    config = write_federation(tmp_path / "federation.json", rule_of("passthrough"))
    loaded = loaded_by_plugin(FEDERATE, f"--config={config}")
    assert loaded - loaded_by_plugin(MINIMAL) <= FEDERATING
    assert "keyferry_plugins.federation.answer" in loaded
    assert (HEAVY | COSTLY | {"collections"}).isdisjoint(loaded)


def loaded_by_plugin(program: str, *args: str) -> set[str]:
    """The modules that a whole run of an image plugin loads."""
    run = [sys.executable, "-ISX", "importtime", "-c", program.format(source=SOURCE), *args]
    request = request_bytes("zot.example.com:5000/app", serviceAccountToken=account_token())
    done = subprocess.run(run, input=request, capture_output=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


def test_the_codec_is_light() -> None:
    """What reads answers, in the library, loads nothing heavy either."""
    assert HEAVY.isdisjoint(loaded_by("keyferry.api.codec"))


def test_the_errors_import_nothing() -> None:
    """Each is loaded when it is used."""
    assert loaded_by("keyferry.errors") == {"keyferry", "keyferry.errors"}


def test_loading_providers_leaves_out_what_a_lookup_does_not_need() -> None:
    """Event loops, TLS, HTTP, metrics and tables are imported by those who use them."""
    unwanted = {
        "argparse",
        "asyncio",
        "base64",
        "concurrent.futures",
        "contextlib",
        "datetime",
        "hashlib",
        "http.client",
        "importlib.metadata",
        "json",
        "logging",
        "prometheus_client",
        "rich",
        "ssl",
        "subprocess",
        "threading",
        "typing",
        "urllib.parse",
        "warnings",
        "yaml",
    }
    assert unwanted.isdisjoint(loaded_by("keyferry.images.load"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one provider."""
    return Node(tmp_path).add("own", ["reg.io"])


def as_json(node: Node) -> Node:
    """The same node, its config written as JSON."""
    import yaml

    node.config.write_text(json.dumps(yaml.safe_load(node.config.read_text())))
    return node


@pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
@pytest.mark.parametrize("command", ["get", "explain"])
def test_a_command_about_images_loads_what_it_uses(command: str, node: Node) -> None:
    """No argparse, no typing, no OpenSSL; PyYAML only for a document that is not JSON."""
    words = (command, "reg.io/app", *plain_pod(node.folder), *node.options())
    in_yaml, in_json = loaded_by_command(*words), None
    as_json(node)
    in_json = loaded_by_command(*words)
    assert in_json <= READING
    assert in_yaml <= READING | YAML
    assert "yaml" in in_yaml


@pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
@pytest.mark.parametrize("image", ["reg.io/team/app-1.2:v1", "reg.io/app@sha256:" + "0" * 64])
def test_a_lookup_needs_no_regular_expression(image: str, node: Node) -> None:
    """Nor anything else that is large, with a config in JSON and an image with a usual name."""
    assert loaded_by_command("get", image, *as_json(node).options()) <= LOOKING_UP


@pytest.mark.skipif(sys.platform != "linux", reason="the agent is for Linux")
def test_a_lookup_by_the_agent_loads_neither_providers_nor_what_runs_them(node: Node) -> None:
    """The config, here in YAML, is only hashed; nothing of OpenSSL, of sockets or of regular expressions."""
    words = ("get", "reg.io/team/app", *node.options())
    with running_agent(PluginNode(node.folder), *node.options()) as agent:
        loaded = loaded_by_command(*words, "--agent", agent.socket)
        own = loaded_by_command(*words, "--agent", agent.socket, own=True)
    assert loaded <= ASKING
    unwanted = ("lookup", "load", "config.files", "config.decode", "provider.provider", "provider.plugin")
    assert own.isdisjoint(f"keyferry.images.{name}" for name in unwanted)
    assert not any(name.startswith(("keyferry.workloads", "keyferry.invoke")) for name in own)
    assert "keyferry.images.agent_answer" in own


@pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
def test_a_look_at_a_node_loads_nothing_that_connects(node: Node) -> None:
    """Neither OpenSSL nor sockets nor gRPC, unless hosts are contacted."""
    loaded = loaded_by_command("doctor", *node.options(), code=1)
    assert {"argparse", "grpc", "json", "socket", "ssl", "concurrent", "email", "tomllib"}.isdisjoint(loaded)


def test_a_heavy_import_would_be_seen() -> None:
    """The probe tells what is loaded, also below the module it imports."""
    assert {"json", "json.decoder"} <= loaded_by("json")


@pytest.mark.parametrize("words", [("list",), ("who", "reg.io/app")], ids=["list", "who"])
def test_a_command_that_reads_records_loads_what_it_uses(words: tuple[str, ...], tmp_path: Path) -> None:
    """Neither typing nor sockets: it looks for no kubelet."""
    with closing(keyferry.load_records(str(tmp_path))) as records:
        records.record_intent("reg.io/app")
        records.record_pulled("reg.io/app", "sha256:1", None)
    loaded = loaded_by_command("records", *words, "--root", str(tmp_path))
    assert loaded <= READING | {"atexit", "datetime", "hashlib"}
    assert {"typing", "socket", "subprocess"}.isdisjoint(loaded)
