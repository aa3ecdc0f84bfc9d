"""The presets: recipes for known registries, as documents in the language of a rule.

Each states what the registry's own documentation or plugin does, as of August 2026. A name is a key of this table and
nothing else: whatever a preset does differently is written in its document.
"""

from __future__ import annotations

from keyferry.api.federation.v1alpha1 import FederationPreset
from keyferry.api.wire import Reader

__all__ = ["PRESETS", "load_preset"]

_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPE = "urn:ietf:params:oauth:token-type"
_SAME_HOST = "${registry}"

PRESETS: dict[str, dict[str, object]] = {
    "passthrough": {
        "about": "zot, Harbor Next, Forgejo: the token itself is the password",
        "params": {"username": {"about": "the user name, which most registries ignore", "default": "jwt"}},
        "calls": [],
        "credentials": {"username": "${username}", "password": "${subject}"},
        "lifetime": {"from": ["exp"], "margin": "10%"},
        "fromAnnotations": ["username"],
    },
    "rfc8693": {
        "about": "any endpoint for token exchange (RFC 8693), such as Dex",
        "params": {
            "host": {"about": "host of the endpoint"},
            "path": {"about": "path of the endpoint", "default": "token"},
            "username": {"about": "user name for the registry", "default": "token"},
            "subject_token_type": {"about": "type of the token", "default": f"{_TYPE}:jwt"},
            "requested_token_type": {"about": "type of the token to get", "default": ""},
            "audience": {"about": "audience of the token to get", "default": ""},
            "scope": {"about": "scope of the token to get", "default": ""},
            "connector_id": {"about": "Dex: the connector that trusts the cluster", "default": ""},
            "client_id": {"about": "client that may exchange tokens", "default": ""},
            "client_secret": {"about": "the client's secret", "default": "", "secret": True},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/${+path}",
                "basic": {"username": "${client_id}", "password": "${client_secret}", "encode": "form"},
                "encode": "form",
                "fields": {
                    "grant_type": _EXCHANGE,
                    "subject_token": "${subject}",
                    "subject_token_type": "${subject_token_type}",
                    "requested_token_type": "${requested_token_type}",
                    "audience": "${audience}",
                    "scope": "${scope}",
                    "connector_id": "${connector_id}",
                },
                "out": {"token": "/access_token", "ttl": "/expires_in"},
            }
        ],
        "credentials": {"username": "${username}", "password": "${token}"},
        "lifetime": {"from": ["ttl", "exp"], "margin": "10%"},
        "fromAnnotations": ["connector_id", "username"],
    },
    "jfrog": {
        "about": "JFrog Artifactory: an OIDC integration with an identity mapping",
        "params": {
            "host": {"about": "host of the JFrog platform", "default": _SAME_HOST},
            "provider_name": {"about": "name of the OIDC integration"},
            "provider_type": {"about": "type of the OIDC integration", "default": ""},
            "audience": {"about": "audience of the OIDC integration", "default": ""},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/access/api/v1/oidc/token",
                "encode": "json",
                "fields": {
                    "grant_type": _EXCHANGE,
                    "subject_token_type": f"{_TYPE}:id_token",
                    "subject_token": "${subject}",
                    "provider_name": "${provider_name}",
                    "provider_type": "${provider_type}",
                    "audience": "${audience}",
                },
                "out": {"token": "/access_token", "ttl": "/expires_in", "user": "/username"},
            }
        ],
        "credentials": {"username": "${user}", "password": "${token}"},
        "lifetime": {"from": ["ttl", "exp"], "margin": "10%"},
        "fromAnnotations": ["provider_name"],
    },
    "quay": {
        "about": "Quay: a robot account with a federated identity",
        "params": {
            "host": {"about": "host of Quay", "default": _SAME_HOST},
            "robot": {"about": "the robot account, such as org+robot"},
        },
        "calls": [
            {
                "method": "GET",
                "url": "https://${host}/oauth2/federation/robot/token",
                "basic": {"username": "${robot}", "password": "${subject}"},
                "encode": "query",
                "out": {"token": "/token"},
            }
        ],
        "credentials": {"username": "${robot}", "password": "${token}"},
        "lifetime": {"from": ["exp"], "margin": "10%"},
        "fromAnnotations": ["username"],
    },
    "cloudsmith": {
        "about": "Cloudsmith: a service account with an OIDC provider",
        "params": {
            "host": {"about": "host of Cloudsmith's API", "default": "api.cloudsmith.io"},
            "org": {"about": "slug of the organisation"},
            "service": {"about": "slug of the service account"},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/openid/${org}/",
                "encode": "json",
                "fields": {"oidc_token": "${subject}", "service_slug": "${service}"},
                "out": {"token": "/token"},
            }
        ],
        "credentials": {"username": "token", "password": "${token}"},
        "lifetime": {"from": ["exp"], "margin": "10%"},
        "fromAnnotations": ["service_slug"],
    },
    "gcp": {
        "about": "Google Artifact Registry: workload identity federation",
        "params": {
            "host": {"about": "host of the security token service", "default": "sts.googleapis.com"},
            "pool": {
                "about": "the provider of the pool:"
                " //iam.googleapis.com/projects/N/locations/global/workloadIdentityPools/P/providers/Q",
                "pattern": "//iam\\.googleapis\\.com/projects/[0-9]+/locations/global/workloadIdentityPools/[^/]+"
                "/providers/[^/]+|identitynamespace:[^:]+:.+",
                "expected": "//iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/POOL"
                "/providers/PROVIDER, with the project's number, or identitynamespace:PROJECT.svc.id.goog:PROVIDER",
            },
            "scope": {"about": "scope", "default": "https://www.googleapis.com/auth/cloud-platform"},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/v1/token",
                "encode": "json",
                "fields": {
                    "audience": "${pool}",
                    "grant_type": _EXCHANGE,
                    "requested_token_type": f"{_TYPE}:access_token",
                    "scope": "${scope}",
                    "subject_token": "${subject}",
                    "subject_token_type": f"{_TYPE}:jwt",
                },
                "out": {"token": "/access_token", "ttl": "/expires_in"},
            }
        ],
        "credentials": {"username": "_token", "password": "${token}"},
        "lifetime": {"from": ["ttl"], "margin": "10%", "max": "1h"},
    },
    "acr": {
        "about": "Azure Container Registry: a federated credential of an Entra application or managed identity",
        "params": {
            "host": {"about": "host of Entra", "default": "login.microsoftonline.com"},
            "tenant": {"about": "tenant ID"},
            "client_id": {"about": "client ID of the application or managed identity"},
            "scope": {"about": "scope", "default": "https://containerregistry.azure.net/.default"},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/${tenant}/oauth2/v2.0/token",
                "encode": "form",
                "fields": {
                    "grant_type": "client_credentials",
                    "client_id": "${client_id}",
                    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                    "client_assertion": "${subject}",
                    "scope": "${scope}",
                },
                "out": {"entra_token": "/access_token"},
            },
            {
                "method": "POST",
                "url": "https://${registry}/oauth2/exchange",
                "encode": "form",
                "fields": {
                    "grant_type": "access_token_refresh_token",
                    "service": "${registry}",
                    "access_token": "${entra_token}",
                    "refresh_token": "${entra_token}",
                    "tenant": "${tenant}",
                },
                "out": {"token": "/refresh_token"},
            },
        ],
        "credentials": {"username": "00000000-0000-0000-0000-000000000000", "password": "${token}"},
        "lifetime": {"from": ["exp"], "margin": "5m", "max": "1h"},
        "fromAnnotations": ["client_id"],
    },
    "ibm": {
        "about": "IBM Cloud Container Registry: a trusted profile",
        "params": {
            "host": {"about": "host of IAM", "default": "iam.cloud.ibm.com"},
            "profile_id": {"about": "ID of the trusted profile", "default": ""},
            "profile_name": {"about": "name of the trusted profile", "default": ""},
        },
        "oneOf": ["profile_id", "profile_name"],
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/identity/token",
                "encode": "form",
                "fields": {
                    "grant_type": "urn:ibm:params:oauth:grant-type:cr-token",
                    "cr_token": "${subject}",
                    "profile_id": "${profile_id}",
                    "profile_name": "${profile_name}",
                },
                "out": {"token": "/access_token", "ttl": "/expires_in"},
            }
        ],
        "credentials": {"username": "iambearer", "password": "${token}"},
        "lifetime": {"from": ["ttl", "exp"], "margin": "10%", "max": "1h"},
        "fromAnnotations": ["profile_id", "profile_name"],
    },
    "vault": {
        "about": "Vault or OpenBao: log in by JWT, then read a KV or a dynamic secret",
        "params": {
            "host": {"about": "host of Vault"},
            "mount": {"about": "path of the JWT auth method", "default": "jwt"},
            "role": {"about": "role of the JWT auth method"},
            "secret": {"about": "API path of the secret, such as secret/data/registry for version 2 of KV"},
            "namespace": {"about": "namespace of Vault Enterprise", "default": ""},
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/v1/auth/${+mount}/login",
                "headers": {"X-Vault-Namespace": "${namespace}"},
                "encode": "json",
                "fields": {"role": "${role}", "jwt": "${subject}"},
                "out": {"vault_token": "/auth/client_token"},
            },
            {
                "method": "GET",
                "url": "https://${host}/v1/${+secret}",
                "headers": {"X-Vault-Token": "${vault_token}", "X-Vault-Namespace": "${namespace}"},
                "encode": "query",
                "out": {
                    "user": ["/data/data/username", "/data/username"],
                    "token": ["/data/data/password", "/data/password"],
                    "lease": "/lease_duration",
                },
            },
        ],
        "credentials": {"username": "${user}", "password": "${token}"},
        "lifetime": {"from": ["lease"], "margin": "10%", "max": "1h", "unknown": "5m"},
        "fromAnnotations": ["role"],
    },
    "dockerhub": {
        "about": "Docker Hub: an OIDC connection, for GitHub Actions only",
        "subject": {
            "from": "github",
            "audience": "https://identity.docker.com",
            "issuer": "https://token.actions.githubusercontent.com",
        },
        "params": {
            "host": {"about": "host of Docker's identity service", "default": "identity.docker.com"},
            "org": {"about": "name of the organisation, which is the user name"},
            "connection_id": {
                "about": "ID of the connection",
                "pattern": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
                "expected": "a UUID, such as 00000000-0000-0000-0000-000000000003",
            },
            "expires_in": {
                "about": "lifetime of the token, 300 to 3600 seconds",
                "default": "300",
                "pattern": "[3-9][0-9]{2}|[12][0-9]{3}|3[0-5][0-9]{2}|3600",
                "expected": "a number of seconds from 300 to 3600",
            },
        },
        "calls": [
            {
                "method": "POST",
                "url": "https://${host}/oauth/token",
                "encode": "form",
                "fields": {
                    "grant_type": _EXCHANGE,
                    "subject_token_type": f"{_TYPE}:id_token",
                    "subject_token": "${subject}",
                    "connection_id": "${connection_id}",
                    "expires_in": "${expires_in}",
                },
                "out": {"token": "/access_token", "ttl": "/expires_in"},
            }
        ],
        "credentials": {"username": "${org}", "password": "${token}"},
        "lifetime": {"from": ["ttl", "exp", "expires_in"], "margin": "10%"},
    },
}


def load_preset(name: str) -> FederationPreset | None:
    """Return the preset *name*, or None."""
    document = PRESETS.get(name)
    return None if document is None else FederationPreset.from_document(document, Reader())
