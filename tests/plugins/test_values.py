"""What the plugins hold of secrets, between where they find it and where they send it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pkgutil import walk_packages

import keyferry_plugins
from keyferry._core.values import Value

MARK = "kf-marked-value"
SECRET = re.compile(
    r"(password|secret|secrets|secret_access_key|(^|_)token|value|members|verifier|nonce|environ)$"
)
# Switches, and where a secret is.
HARMLESS = re.compile(r"^(is|has|use|uses)_")


def value_types(base: type[Value] = Value) -> Iterator[type[Value]]:
    """The types of all values of the plugins."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("keyferry_plugins."):
            yield kind
        yield from value_types(kind)


def test_no_value_of_a_plugin_shows_a_secret() -> None:
    """A repr ends up in logs."""
    for found in walk_packages(keyferry_plugins.__path__, "keyferry_plugins."):
        import_module(found.name)
    shown, held = [], 0
    for kind in value_types():
        names = [*signature(kind).parameters]
        secrets = {name for name in names if SECRET.search(name) and not HARMLESS.search(name)}
        held += len(secrets)
        if MARK in repr(kind(**{name: MARK if name in secrets else name for name in names})):
            shown.append(f"{kind.__module__}.{kind.__name__}: {secrets}")
    assert shown == []
    assert held > 20
