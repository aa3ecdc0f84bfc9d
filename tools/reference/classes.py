"""What a class is made of, as its source says: bases, fields, words of a set, and attributes of a constructor."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import is_typeddict

from reference.source import class_of, default_text, field_default, named_in, signature_text, type_text

__all__ = ["attributes_of", "base_names", "is_promised", "named_types", "own_lineage"]

# Parts of public classes for keyferry itself, such as its agent. They have no underscore, and are not promised.
_NOT_PROMISED = {
    "Answer": frozenset({"keyrings", "matching", "provisions", "not_given"}),
    "ClusterSession": frozenset({"__init__", "authenticator"}),
    "Providers": frozenset(
        {
            *("__init__", "find", "foresee", "provide_async", "providers"),
            *("recall", "refresh_async", "refuse", "waiting"),
        }
    ),
    "Records": frozenset({"__init__", "counters", "files", "memory"}),
}
# How values are made is nobody else's business.
_MADE_OF = {"Value", "WireValue", "NamedTuple", "_Tuple", "StrEnum", "_Member"}


def is_promised(value: type, name: str) -> bool:
    """Return whether a part of a class without an underscore has a place in the reference."""
    return name not in _NOT_PROMISED.get(value.__name__, ())


def own_lineage(value: type, known: Container[str]) -> list[type]:
    """Return a class and those of its bases that have no entry of their own."""
    # A dictionary with types has no bases but those that are written.
    lineage = (value, *_written_bases(value)) if is_typeddict(value) else value.__mro__
    return [
        each
        for each in lineage
        if each is value or (_is_ours(each) and each.__name__ not in known and each.__name__ not in _MADE_OF)
    ]


def _written_bases(value: type) -> list[type]:
    module = import_module(value.__module__)
    bases = [getattr(module, ast.unparse(base)) for base in class_of(value).bases]
    return [base for base in bases if is_typeddict(base)]


def base_names(value: type, known: Container[str]) -> list[str]:
    """Return the bases that a reader can look up; a base without an entry is replaced by its own bases."""
    if issubclass(value, StrEnum):
        return ["StrEnum"]
    if is_typeddict(value):  # a plain dictionary, without the bases that are written
        return [each for each in map(ast.unparse, class_of(value).bases) if each in known] or ["TypedDict"]
    names: list[str] = []
    for base in value.__bases__:
        if base is object or (_is_ours(base) and base.__name__ in _MADE_OF):
            continue
        is_known = not _is_ours(base) or base.__name__ in known
        names += [base.__name__] if is_known else base_names(base, known)
    return names


def _is_ours(value: type) -> bool:
    return value.__module__.partition(".")[0] == "keyferry"


def attributes_of(value: type, known: Container[str], *, has_constructor: bool = True) -> list[str]:
    """Return a line for each attribute and, after a blank one, for the constructor unless it is left out."""
    found: dict[str, str] = {}
    for each in reversed(own_lineage(value, known)):
        node, module = class_of(each), import_module(each.__module__)
        for statement in node.body:
            found |= dict(_declared(statement, module))
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                found |= dict(_constructed(statement, module))
    found = {name: line for name, line in found.items() if is_promised(value, name)}
    constructor = found.pop("__init__", "")
    lines = list(found.values())
    return (
        lines
        if not constructor or not has_constructor
        else [*lines, "", constructor]
        if lines
        else [constructor]
    )


def named_types(value: type, known: Container[str]) -> Iterator[type]:
    """Yield keyferry's own classes that attributes, properties and methods have as values, without those in *known*."""
    for each in reversed(own_lineage(value, known)):
        module = import_module(each.__module__)
        for statement in class_of(each).body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name, kind = statement.target.id, statement.annotation
            elif isinstance(statement, ast.FunctionDef) and statement.returns is not None:
                name, kind = statement.name, statement.returns
            else:
                continue
            if name.startswith("_") or not is_promised(value, name):
                continue
            for found in named_in(kind, module):
                if _is_ours(found) and found.__name__[0] != "_" and found.__name__ not in known:
                    yield found


def _declared(node: ast.stmt, module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the name and the line of a field, or of a word of a set."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name, kind = node.target.id, type_text(node.annotation, module)
        if not name.startswith("_") and "ClassVar" not in kind:
            default = field_default(node.value, module)
            yield name, f"{name}: {kind}" + (f" = {default}" if default else "")
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if not name.startswith("_"):
            yield name, f"{name} = {default_text(node.value, module)}"


def _constructed(node: ast.FunctionDef, module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the constructor, and the attributes that it sets."""
    yield "__init__", signature_text(node, "__init__", module).replace("\n", "\n    ")
    types = {
        each.arg: type_text(each.annotation, module) for each in (*node.args.args, *node.args.kwonlyargs)
    }
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign):
            targets: list[ast.expr] = [each.target]
            kind = type_text(each.annotation, module)
        elif isinstance(each, ast.Assign):
            targets, kind = list(each.targets), ""
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr[0] != "_" and target.attr != "args":
                name = target.attr
                known = kind or types.get(name, "")
                yield name, f"{name}: {known}" if known else name
