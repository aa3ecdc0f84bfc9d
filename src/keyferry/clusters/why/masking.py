"""Mask secrets in a plugin's input."""

from __future__ import annotations

import re

from keyferry._core.json import dumps, loads
from keyferry._core.secrets import MASK, MASKED_NAMES, redact
from keyferry._core.user_info import hide_in_url
from keyferry.api.clientauthentication.v1 import encode_exec_info
from keyferry.clusters.kubeconfig.resolve import ClientConfig

_NAME = re.compile(rf"(?i)[\w.-]*(?:{MASKED_NAMES}|authorization)")


def exec_info_text(config: ClientConfig, *, interactive: bool) -> str:
    """Return KUBERNETES_EXEC_INFO exactly as the plugin of *config* gets it, including secrets."""
    if config.exec is None:
        return ""
    cluster = config.exec_cluster if config.exec.provide_cluster_info else None
    return encode_exec_info(config.exec.api_version, cluster, interactive=interactive)


def exec_info_document(text: str) -> object:
    """Return the content of KUBERNETES_EXEC_INFO with secrets masked."""
    return mask_document(loads(text))


def mask_document(value: object, name: str = "") -> object:
    """Return *value* with secrets masked, which are recognized by the field's name or by their format."""
    if isinstance(value, dict):
        return {key: mask_document(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_document(item, name) for item in value]
    if not isinstance(value, str) or name == "certificate-authority-data":
        return value  # an authority's certificate is public
    if name in ("proxy-url", "server"):
        return hide_in_url(value)
    return MASK if value and _NAME.fullmatch(name) else redact(value)


def write_document(value: object) -> str:
    """Return a document as one line of JSON, like KUBERNETES_EXEC_INFO."""
    return dumps(value) + "\n"
