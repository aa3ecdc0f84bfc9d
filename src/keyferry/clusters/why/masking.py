"""Mask secrets in a plugin's command line and input."""

import re
from collections.abc import Iterable

from keyferry._core.json import dumps, loads
from keyferry._core.secrets import MASK, redact
from keyferry._core.user_info import hide_in_url
from keyferry.api.clientauthentication.v1 import encode_exec_info
from keyferry.clusters.kubeconfig.resolve import ClientConfig

__all__ = [
    "exec_info_document",
    "exec_info_text",
    "mask_arguments",
    "mask_document",
    "secret_arguments",
    "write_document",
]

_WORDS = r"(?:pass|passwd|password|passphrase|secret|token|key|credentials?)"
_FLAG = re.compile(rf"(?i)--?(?:u|user|p|[\w-]*{_WORDS})")
_NAME = re.compile(rf"(?i)[\w.-]*(?:{_WORDS}|authorization)")


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments with secrets masked, such as the value of ``--token``."""
    shown: list[str] = []
    is_value = False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        is_flag = _FLAG.fullmatch(flag) is not None
        if is_value and not argument.startswith("--"):
            shown.append(MASK)
        else:
            shown.append(f"{flag}={MASK}" if is_flag and equals else redact(argument))
        is_value = is_flag and not equals
    return tuple(shown)


def secret_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets that ``mask_arguments`` masks as the value of a flag."""
    words = tuple(arguments)
    pairs = zip(words, mask_arguments(words), strict=True)
    return tuple(
        word.partition("=")[2] if shown.endswith(f"={MASK}") else word
        for word, shown in pairs
        if shown.endswith(MASK) and word != shown
    )


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
