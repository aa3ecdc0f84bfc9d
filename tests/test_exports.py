"""The public names: what is fetched lazily, what ``__all__`` lists, and what a type checker is told are the same."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import tomllib
from enum import EnumType
from pathlib import Path
from types import ModuleType
from typing import ClassVar, get_args, get_type_hints

import pytest

import keyferry
from keyferry import errors, sdk
from support.public_names import API, SDK

PACKAGES = [keyferry, sdk]
# A root and protocols: nobody calls them.
NOT_CALLED = {"KeyferryError", "PullTarget", "ServiceAccounts"}


def checked_imports(package: ModuleType) -> dict[str, str]:
    """What the type checker is told: each name and the module that it comes from."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: importlib.util.resolve_name(f"{'.' * node.level}{node.module}", package.__name__)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name == alias.asname
    }


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.__name__))
def test_every_public_name_is_what_a_type_checker_takes_it_for(package: ModuleType) -> None:
    """Listed once, found by ``dir`` and by an import of all names; it says what it is, and is called so at home."""
    checked = checked_imports(package)
    assert list(package.__all__) == sorted(checked)
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)  # noqa: S102 - what a user may write
    for name, home in checked.items():
        value = getattr(package, name)
        assert {id(value)} == {id(names[name]), id(getattr(importlib.import_module(home), name))}, name
        assert isinstance(value, str) or (value.__name__ == name and value.__doc__), name
        assert name in dir(package)


@pytest.mark.parametrize("name", [*(f"keyferry.sdk.{name}" for name in SDK), *API])
def test_every_name_of_a_public_module_is_there(name: str) -> None:
    """Those of the SDK say what they are."""
    module = importlib.import_module(name)
    assert module.__all__
    for each in module.__all__:
        value = getattr(module, each)
        assert name in API or getattr(value, "__doc__", None), each


def named_types(hint: object) -> set[type]:
    """The classes of the package that a type hint names."""
    if isinstance(hint, list):
        return set().union(*map(named_types, hint))
    inner = set().union(*map(named_types, get_args(hint)))
    is_ours = isinstance(hint, type) and hint.__module__.partition(".")[0] == "keyferry"
    return inner | {hint} if is_ours and isinstance(hint, type) else inner


@pytest.mark.parametrize(
    "function",
    [
        keyferry.pull,
        keyferry.parse_image,
        keyferry.check_registry,
        keyferry.load_providers,
        keyferry.load_records,
        keyferry.Providers.lookup,
        keyferry.PullOptions,
        keyferry.PullTarget.find_image,
        keyferry.PullTarget.pull_image,
        keyferry.Puller.__init__,
        keyferry.Puller.ensure,
    ],
    ids=lambda function: str(function.__qualname__),
)
def test_what_a_public_function_takes_and_returns_is_public(function: object) -> None:
    """A caller can make it and annotate it without a private import."""
    # The base of values names it for type checkers only.
    hints = get_type_hints(function, localns={"ClassVar": ClassVar})
    used = set().union(*(named_types(hints[name]) for name in function.__annotations__))
    assert {each.__name__ for each in used} - set(keyferry.__all__) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="module 'keyferry' has no attribute 'load_provider'"):
        keyferry.load_provider  # type: ignore[attr-defined] # noqa: B018 - that is the test
    assert not hasattr(keyferry, "__wrapped__")
    with pytest.raises(AttributeError, match=r"module 'keyferry\.sdk' has no attribute 'server'"):
        sdk.server  # type: ignore[attr-defined] # noqa: B018 - that is the test


def test_the_names_of_the_package_can_be_completed() -> None:
    """Without an import: all public names and modules."""
    assert {*keyferry.__all__, "api", "errors", "sdk", "__version__"} <= set(dir(keyferry))


def test_every_public_name_has_a_signature_that_editors_can_show() -> None:
    """Each parameter has a name and a type; values show their fields."""
    for name in set(keyferry.__all__) - NOT_CALLED:
        found = getattr(keyferry, name)
        # Members of enums are named, not made.
        for each in () if isinstance(found, EnumType) else inspect.signature(found).parameters.values():
            assert each.kind is not inspect.Parameter.VAR_POSITIONAL, (name, each)
            assert each.annotation is not inspect.Parameter.empty, (name, each)


def test_every_error_is_public_and_has_one_root() -> None:
    """What may be caught is where it is raised from, and is the same class at the top."""
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and not name.startswith("_") and value.__module__ == errors.__name__
    }
    # What errors are made of is nobody else's business.
    assert defined - {"TextError"} == set(errors.__all__)
    values = {"Detail", "Fault", "Kind", "KubeletReason", "Problem"}
    for name in errors.__all__:
        found = getattr(errors, name)
        assert getattr(keyferry, name) is found
        assert name in values or issubclass(found, errors.KeyferryError)


def test_the_version_is_the_projects() -> None:
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    assert tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"] == keyferry.__version__
