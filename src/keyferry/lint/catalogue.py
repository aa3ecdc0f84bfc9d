"""The stable codes of all problems that lint finds, collected from the modules of this package."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import keyferry.lint
from keyferry.lint.code import Code

__all__ = ["CODES", "Code"]


def _collect() -> dict[str, Code]:
    names = (each.name for each in walk_packages(keyferry.lint.__path__, "keyferry.lint."))
    modules = [import_module(name) for name in names if name != __name__]
    found = {
        each.code: each for module in modules for each in vars(module).values() if isinstance(each, Code)
    }
    return dict(sorted(found.items()))


CODES: dict[str, Code] = _collect()
