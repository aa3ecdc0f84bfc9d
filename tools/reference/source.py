"""Definitions of public names in the sources: signatures, fields and docstrings as they are written there.

The sources are parsed, because what ``inspect`` prints of types differs between versions of Python.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAX_LINE = 88


@cache
def tree_of(module: ModuleType) -> ast.Module:
    """Return the parsed source of a module."""
    return ast.parse(text_of(module))


@cache
def text_of(module: ModuleType) -> str:
    """Return the source of a module."""
    return Path(str(module.__file__)).read_text(encoding="utf-8")


@cache
def _classes(module: ModuleType) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(tree_of(module)) if isinstance(node, ast.ClassDef)}


def class_of(value: type) -> ast.ClassDef:
    """Return where a class is defined."""
    return _classes(import_module(value.__module__))[value.__name__]


def function_of(value: Callable[..., object]) -> Function:
    """Return where a function is defined."""
    for node in tree_of(import_module(value.__module__)).body:
        if isinstance(node, Function) and node.name == value.__name__:
            return node
    raise LookupError(f"{value!r} has no definition")


@cache
def _origins(module: ModuleType) -> dict[str, str]:
    """Return the modules that names are imported from."""
    return {
        each.asname or each.name: "." * node.level + (node.module or "")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }


def home_of(module: ModuleType, name: str) -> ModuleType:
    """Return the module that assigns a constant or a type, which others may import; of ours only."""
    origin = _origins(module).get(name, "")
    if not origin.startswith((".", "keyferry")):
        return module
    package = module.__name__ if hasattr(module, "__path__") else module.__package__
    return home_of(import_module(origin, package), name)


def comment_on(module: ModuleType, name: str) -> str:
    """Return the comment above a constant."""
    lines = text_of(module).splitlines()
    for node in tree_of(module).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if name not in {each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name)}:
            continue
        found: list[str] = []
        at = node.lineno - 2
        while lines[at].startswith("# "):
            found.insert(0, lines[at].removeprefix("# "))
            at -= 1
        return " ".join(found)
    return ""


@cache
def _aliases(module: ModuleType) -> dict[str, ast.expr]:
    """Return the names that a module gives to longer types."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if name[:1].isupper() and not name.isupper() and isinstance(value, ast.Subscript | ast.BinOp):
                found[name] = value
    return found


class _Plain(ast.NodeTransformer):
    """Replaces quoted types, and names of longer types, by the types that they stand for."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Write a named type out."""
        home = home_of(self._module, node.id)
        alias = _aliases(home).get(node.id)
        named: ast.AST = node if alias is None else _Plain(home).visit(copy.deepcopy(alias))
        return named

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Leave a ``Literal`` alone."""
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        return node if is_literal else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Parse a quoted type."""
        if isinstance(node.value, str):
            named: ast.AST = self.visit(ast.parse(node.value, mode="eval").body)
            return named
        return node


def type_text(node: ast.expr | None, module: ModuleType) -> str:
    """Return a type as it would be written without quotes and names of its own."""
    return "" if node is None else ast.unparse(_Plain(module).visit(copy.deepcopy(node)))


def named_in(node: ast.expr, module: ModuleType) -> Iterator[type]:
    """Yield the classes that a type names, also in quotes and by the names of longer types."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield from named_in(ast.parse(each.value, mode="eval").body, module)
        elif isinstance(each, ast.Name):
            home = home_of(module, each.id)
            alias = _aliases(home).get(each.id)
            if alias is not None:
                yield from named_in(alias, home)
            elif isinstance(found := getattr(home, each.id, None), type):
                yield found


def default_text(node: ast.expr, module: ModuleType) -> str:
    """Return a default; a constant of its module is replaced by its value."""
    root = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(root, ast.Name) and root.id.isupper():
        value = eval(ast.unparse(node), vars(module))  # noqa: S307 - our own source
        if isinstance(value, str | int | float):
            return literal_text(value)
    return (
        literal_text(node.value) if isinstance(node, ast.Constant) else _in_double_quotes(ast.unparse(node))
    )


def literal_text(value: object) -> str:
    """Return a constant as the project's sources write it: in double quotes, large numbers in groups."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:_}"
    return _in_double_quotes(repr(value))


def _in_double_quotes(text: str) -> str:
    return text if '"' in text else text.replace("'", '"')


def field_default(node: ast.expr | None, module: ModuleType) -> str:
    """Return the default of a field of a value; empty if it has none."""
    if node is None:
        return ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("field", "wire"):
        given = {each.arg: each.value for each in node.keywords}
        if "default_factory" in given:
            made = ast.unparse(given["default_factory"])
            return {"dict": "{}", "list": "[]"}.get(made, f"{made}()")
        return default_text(given["default"], module) if "default" in given else ""
    return default_text(node, module)


def signature_text(node: Function, name: str, module: ModuleType) -> str:
    """Return a function's signature, without ``self``; on several lines if it is long."""
    start = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    end = f" -> {type_text(node.returns, module)}" if node.returns and node.name != "__init__" else ""
    parameters = list(_parameters(node.args, module))
    line = f"{start}{name}({', '.join(parameters)}){end}: ..."
    if len(line) <= _MAX_LINE:
        return line
    return f"{start}{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}: ..."


def _parameters(args: ast.arguments, module: ModuleType) -> list[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    shown = [
        _parameter(each, default, module)
        for each, default in zip(plain, defaults, strict=True)
        if each.arg not in {"self", "cls"}
    ]
    if args.posonlyargs:
        shown.insert(sum(each.arg not in {"self", "cls"} for each in args.posonlyargs), "/")
    if args.vararg is not None:
        shown.append("*" + _parameter(args.vararg, None, module))
    elif args.kwonlyargs:
        shown.append("*")
    keyed = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    shown += [_parameter(each, default, module) for each, default in keyed]
    if args.kwarg is not None:
        shown.append("**" + _parameter(args.kwarg, None, module))
    return [each for at, each in enumerate(shown) if each != "/" or at > 0]


def _parameter(arg: ast.arg, default: ast.expr | None, module: ModuleType) -> str:
    kind = type_text(arg.annotation, module)
    typed = f"{arg.arg}: {kind}" if kind else arg.arg
    if default is None:
        return typed
    return (
        f"{typed} = {default_text(default, module)}" if kind else f"{arg.arg}={default_text(default, module)}"
    )


def docstring_of(node: ast.ClassDef | Function | ast.Module) -> str:
    """Return a docstring, one line for each paragraph."""
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\n+", text))


def decorators_of(node: Function) -> set[str]:
    """Return the names of a function's decorators."""
    return {ast.unparse(each) for each in node.decorator_list}
