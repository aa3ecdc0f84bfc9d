"""Load the config: a file that only root or this user can write, or flags and variables."""

from __future__ import annotations

import os
import sys

from keyferry.sdk import ProvideError
from keyferry.sdk.federation import complete_rule, interpret_federation, make_document, read_federation
from keyferry.sdk.files import read_bounded
from keyferry_plugins.federation.options import read_text, refuse_both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.federation import CompleteRule, FederationConfig
    from keyferry.sdk.flags import Flags

__all__ = ["find_rule", "load_config"]

_MOST_BYTES = 1 << 20
_OTHERS_WRITE = 0o022


def load_config(flags: Flags, environ: Mapping[str, str]) -> FederationConfig:
    """Return the config that the flags and variables name or stand for; raise ProvideError for a problem in it."""
    path = read_text(flags, environ, "config")
    if path:
        refuse_both(flags)

        def check(status: os.stat_result) -> None:
            _check_owner(path, status)

        return read_federation(read_bounded(path, "the config", _MOST_BYTES, check=check), path)
    document = make_document(flags.values, environ)
    if not read_text(flags, environ, "preset") and not read_text(flags, environ, "registry"):
        raise ProvideError(
            "there is no config",
            "add --config FILE to the provider's args, or --registry, --preset and its settings",
        )
    return interpret_federation(document, "the flags and variables")


def _check_owner(path: str, status: os.stat_result) -> None:
    """Raise ProvideError if another user can write the file: it decides where tokens are sent."""
    if sys.platform == "win32":
        return
    if status.st_mode & _OTHERS_WRITE or status.st_uid not in (0, os.geteuid()):
        raise ProvideError(
            f"the config {path!r} can be written by other users, who could choose where tokens are sent",
            "make root its owner, and close it to others: chmod go-w",
        )


def find_rule(config: FederationConfig, registry: str) -> CompleteRule:
    """Return the rule for the host and port of an image; raise ProvideError if no rule lists exactly that."""
    for rule in config.rules:
        if registry in rule.registries:
            return complete_rule(rule)
    listed = [each for rule in config.rules for each in rule.registries]
    more = ", ..." if len(listed) > 5 else ""
    raise ProvideError(
        f"no rule is for the registry {registry[:255]!r}, only for {', '.join(listed[:5])}{more}",
        "add the registry to a rule, or narrow matchImages in the kubelet's config",
    )
