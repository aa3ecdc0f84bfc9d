"""What may be shown of a plugin's command line and input: everything but what looks like a secret."""

import re
from collections.abc import Iterable

from keyferry._core.json import dumps, loads
from keyferry._core.secrets import MASK, redact
from keyferry._core.user_info import hide_user_info
from keyferry.api.clientauthentication.v1 import encode_exec_info
from keyferry.clusters.kubeconfig.resolve import ClientConfig

__all__ = ["exec_info_document", "exec_info_text", "mask_arguments", "mask_document", "write_document"]

_WORDS = r"(?:pass|passwd|password|passphrase|secret|token|key|credentials?)"
_FLAG = re.compile(rf"(?i)--?(?:u|user|p|[\w-]*{_WORDS})")
_NAME = re.compile(rf"(?i)[\w.-]*(?:{_WORDS}|authorization)")


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Arguments as they may be shown: what follows a flag such as ``--token`` is masked."""
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


def exec_info_text(config: ClientConfig, *, interactive: bool) -> str:
    """KUBERNETES_EXEC_INFO to the byte, as the plugin of *config* is given it; secrets included."""
    if config.exec is None:
        return ""
    cluster = config.exec_cluster if config.exec.provide_cluster_info else None
    return encode_exec_info(config.exec.api_version, cluster, interactive=interactive)


def exec_info_document(text: str) -> object:
    """The content of KUBERNETES_EXEC_INFO without secrets."""
    return mask_document(loads(text))


def mask_document(value: object, name: str = "") -> object:
    """*value* with what looks like a secret masked, by its field's name or by its own looks."""
    if isinstance(value, dict):
        return {key: mask_document(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_document(item, name) for item in value]
    if not isinstance(value, str) or name == "certificate-authority-data":
        return value  # an authority's certificate is for everyone to see
    if name == "proxy-url":
        return hide_user_info(value)
    return MASK if value and _NAME.fullmatch(name) else redact(value)


def write_document(value: object) -> str:
    """A document as the one line that KUBERNETES_EXEC_INFO is."""
    return dumps(value) + "\n"
