"""The declarations of fields write documents that are read again as they were."""

from __future__ import annotations

import pytest

from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from keyferry.api.clientauthentication.v1 import ExecCredential
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.v1alpha1 import FederationConfig, FederationPreset
from keyferry.api.kubeconfig.v1 import Kubeconfig
from keyferry.api.kubeletconfig.v1 import OLD_VERSIONS, CredentialProvider, CredentialProviderConfig
from keyferry.api.kuberc.v1beta1 import Preference
from keyferry.api.wire import Reader, WireValue

CALL = {
    "method": "PUT",
    "url": "https://${registry}",
    "encode": "json",
    "basic": {"username": "u", "password": "${subject}", "encode": "form"},
    "out": {"a": ["/a"], "b": ["/b", "/c"]},
}
RULE = {
    "registries": ["r.example"],
    "subject": {"from": "file", "file": "/t"},
    "params": {"host": "h", "secret": {"file": "/f"}, "team": {"annotation": "a", "pattern": ".*"}},
    "calls": [CALL],
    "lifetime": {"from": ["ttl"], "margin": "5m0s", "max": "1h0m0s"},
}
USER = {
    "client-key-data": "AP8=",
    "as-user-extra": {"k": ["v"]},
    "auth-provider": {"name": "gcp"},
    "exec": {"command": "c", "args": [""], "apiVersion": "client.authentication.k8s.io/v1"},
}
PROVIDER = {
    "name": "p",
    "matchImages": ["r.io"],
    "defaultCacheDuration": "0s",
    "env": [{"name": "A", "value": "b"}],
    "tokenAttributes": {"requireServiceAccount": False},
}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (CredentialProviderConfig, {"providers": [PROVIDER]}),
        (ExecCredential, {"spec": {"cluster": {"server": "s", "config": {"a": [1]}}, "interactive": True}}),
        (ExecCredential, {"spec": {"interactive": False}, "status": {}}),
        (Preference, {"aliases": [{"name": "x"}], "credentialPluginAllowlist": [{"command": "c"}]}),
        (AgentConfig, {"cacheEntries": 0, "watch": False, "access": [{"uids": [1], "everyRegistry": True}]}),
        (FederationConfig, {"rules": [RULE]}),
        (Kubeconfig, {"users": [{"name": "u", "user": USER}], "preferences": {"colors": True}}),
        (
            Kubeconfig,
            {"clusters": [{"name": "k", "cluster": {"extensions": [{"name": "e", "extension": [1.5]}]}}]},
        ),
    ],
)
def test_a_document_is_written_as_it_was_read(kind: type[WireValue], document: dict[str, object]) -> None:
    reader = Reader()
    value = kind.from_document(document, reader)
    assert reader.problems == []
    assert value.to_document() == document


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_written_is_the_same(name: str) -> None:
    """What has its default need not be written."""
    preset = FederationPreset.from_document(PRESETS[name], Reader())
    assert FederationPreset.from_document(preset.to_document(), Reader()) == preset


def test_a_value_without_content_is_an_empty_document() -> None:
    """Absent lists and empty ones alike; only what Kubernetes always writes is there."""
    assert CredentialProvider(args=(), env=()).to_document() == {}
    assert ExecCredential().to_document() == {"spec": {"interactive": False}}


def test_an_old_version_has_no_newer_fields() -> None:
    config = CredentialProviderConfig.from_document({"providers": [PROVIDER]}, Reader())
    assert "tokenAttributes" in str(config.to_document())
    assert "tokenAttributes" not in str(config.to_document(OLD_VERSIONS[0]))
