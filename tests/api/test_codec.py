"""What is written is read again as it was, no value shows a secret, and a long list of problems has an end."""

from __future__ import annotations

import pytest

from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from keyferry.api.clientauthentication.v1 import ClusterInfo, ExecCredential, ExecCredentialStatus
from keyferry.api.codec import kubernetes_failure
from keyferry.api.credentialprovider.v1 import AuthConfig, CredentialProviderRequest
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.v1alpha1 import FederationConfig, FederationPreset
from keyferry.api.kubeconfig.v1 import Kubeconfig
from keyferry.api.kubeletconfig.v1 import (
    OLD_VERSIONS,
    CredentialProvider,
    CredentialProviderConfig,
    ExecEnvVar,
)
from keyferry.api.kuberc.v1beta1 import Preference
from keyferry.api.wire import Reader, WireValue

SECRET = "s3cr3t-marker"


def test_strict_errors_are_listed_once_and_at_most_a_hundred_times() -> None:
    """As in Kubernetes."""
    reader = Reader()
    for _ in range(2):
        reader.struct({f"field{number}": 0 for number in range(150)}, (), {})
    failure = kubernetes_failure(reader.problems)
    assert failure is not None
    assert failure.kubernetes_text.count("unknown field") == 100


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
    "client-certificate": "c.crt",
    "client-certificate-data": "Zm9v",
    "client-key": "c.key",
    "client-key-data": "AP8=",
    "token": "t",
    "tokenFile": "tok",
    "as": "bob",
    "as-uid": "1",
    "as-groups": ["g"],
    "as-user-extra": {"k": ["v"]},
    "username": "u",
    "password": "p",
    "auth-provider": {"name": "gcp"},
    "exec": {"command": "c", "args": [""], "env": [{"name": "A", "value": "b"}], "apiVersion": "x/v1"},
    "extensions": [{"name": "e", "extension": 1}],
}


CLUSTER = {
    "server": "https://k",
    "tls-server-name": "sni",
    "insecure-skip-tls-verify": True,
    "certificate-authority": "ca.crt",
    "certificate-authority-data": "Zm9v",
    "proxy-url": "http://p",
    "disable-compression": True,
    "extensions": [{"name": "e", "extension": [1.5]}],
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
        (Kubeconfig, {"clusters": [{"name": "k", "cluster": CLUSTER}], "current-context": "c"}),
        (
            Kubeconfig,
            {"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}]},
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


@pytest.mark.parametrize(
    "value",
    [
        AuthConfig(username="u", password=SECRET),
        CredentialProviderRequest(image="i", service_account_token=SECRET),
        CredentialProvider(env=(ExecEnvVar(name="A", value=SECRET),)),
        ExecCredential(
            status=ExecCredentialStatus(token=SECRET, client_certificate_data="c", client_key_data=SECRET)
        ),
        ClusterInfo(proxy_url=f"http://u:{SECRET}@p", config=f'"{SECRET}"'),
        Kubeconfig.from_document(
            {
                "users": [
                    {
                        "name": "u",
                        "user": {
                            "token": SECRET,
                            "password": SECRET,
                            "exec": {"args": [SECRET], "env": [{"name": "A", "value": SECRET}]},
                            "auth-provider": {"name": "x", "config": {"token": SECRET}},
                        },
                    }
                ],
                "clusters": [
                    {
                        "name": "k",
                        "cluster": {
                            "proxy-url": f"http://u:{SECRET}@p",
                            "extensions": [{"name": "x", "extension": SECRET}],
                        },
                    }
                ],
            },
            Reader(),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_secret_is_shown(value: WireValue) -> None:
    assert SECRET in str(value.to_document())
    assert SECRET not in f"{value} {value!r}"
