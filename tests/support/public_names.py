"""The public modules beside the doors themselves, as the tests expect them."""

from __future__ import annotations

SDK = [
    "files",
    "flags",
    "http",
    "process",
    "testing",
]
API = [
    "keyferry.api.meta",
    "keyferry.api.wire",
    "keyferry.api.credentialprovider.v1",
    "keyferry.api.federation.v1alpha1",
    "keyferry.api.kubeletconfig.v1",
]
