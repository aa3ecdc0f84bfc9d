"""What ``keyferry kube`` loads on its way to a server, and what it does not."""

import json
import sys

import pytest
import yaml

from support.kube import Kube
from support.starts import CONNECTING, READING, YAML, loaded_by_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def load(kube: Kube, *words: str) -> set[str]:
    """What a subcommand loads, on the test's kubeconfig."""
    return loaded_by_command("kube", *words, "--kubeconfig", str(kube.path), HOME=str(kube.folder), KUBERC="")


def test_a_request_loads_ssl_and_no_yaml(kube: Kube) -> None:
    """With a JSON kubeconfig: sockets and TLS, and nothing for YAML, URLs, dates or names in other scripts."""
    assert load(kube, "raw", "/version") <= CONNECTING


def test_a_token_alone_needs_no_tls(kube: Kube) -> None:
    """It comes from the plugin, and no server is asked."""
    assert load(kube, "token") <= READING


def test_a_yaml_kubeconfig_costs_pyyaml_and_no_more(kube: Kube) -> None:
    """PyYAML reads it, and brings its dates along."""
    kube.path.write_text(yaml.safe_dump(json.loads(kube.path.read_text())))
    loaded = load(kube, "raw", "/version")
    assert loaded <= CONNECTING | YAML
    assert "yaml" in loaded
