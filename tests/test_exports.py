"""The public names: the lazy table, which ``__all__`` is made of, and the type checker's view are the same."""

from __future__ import annotations

import ast
import importlib
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

DOORS = [keyferry, sdk]
# A root and protocols: nobody calls them.
NOT_CALLED = {"KeyferryError", "PullTarget", "ServiceAccounts"}


def checked_imports(door: ModuleType) -> dict[str, str]:
    """What the type checker is told: each name and its home, as the lazy table has it."""
    tree = ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    inside = door.__name__.removeprefix("keyferry").removeprefix(".")
    return {
        alias.name: node.module.removeprefix("keyferry.")
        if not node.level
        else f"{inside}.{node.module}".lstrip(".")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name == alias.asname
    }


@pytest.mark.parametrize("door", DOORS, ids=lambda door: str(door.__name__))
def test_the_two_lists_of_names_agree(door: ModuleType) -> None:
    """What is fetched and what is type-checked are the same names from the same homes, each listed once."""
    names = [name for names in vars(door)["_NAMES"].values() for name in names]
    assert checked_imports(door) == vars(door)["_HOMES"]
    assert list(door.__all__) == sorted(names)


@pytest.mark.parametrize("name", keyferry.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """A promised name can be fetched, says what it is, and is called so at home."""
    value = getattr(keyferry, name)
    assert value.__name__ == name
    assert value.__doc__
    assert name in dir(keyferry)


@pytest.mark.parametrize("name", sdk.__all__)
def test_every_public_name_of_the_sdk_is_there(name: str) -> None:
    """Also by ``from keyferry.sdk import *``, and always the same object."""
    value = getattr(sdk, name)
    assert isinstance(value, str) or (value.__name__ == name and value.__doc__)
    assert name in dir(sdk)
    names: dict[str, object] = {}
    exec("from keyferry.sdk import *", names)  # noqa: S102 - what an author may write
    assert names[name] is value


@pytest.mark.parametrize("name", SDK)
def test_every_name_of_a_module_of_the_sdk_is_there(name: str) -> None:
    """And says what it is."""
    module = importlib.import_module(f"keyferry.sdk.{name}")
    for each in module.__all__:
        value = getattr(module, each)
        assert getattr(value, "__doc__", None), each


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


def test_every_error_is_at_the_top_as_well() -> None:
    """What may be caught is where it is raised from, and is the same class."""
    for name in errors.__all__:
        assert name in keyferry.__all__
        assert getattr(keyferry, name) is getattr(errors, name)


def test_the_names_of_the_package_can_be_completed() -> None:
    """Without an import: all public names and modules."""
    assert {*keyferry.__all__, "api", "errors", "sdk", "__version__"} <= set(dir(keyferry))


@pytest.mark.parametrize("name", sorted(set(keyferry.__all__) - NOT_CALLED))
def test_every_public_name_has_a_signature_that_editors_can_show(name: str) -> None:
    """Each parameter has a name and a type; values show their fields."""
    found = getattr(keyferry, name)
    if isinstance(found, EnumType):
        return  # members are named, not made
    for each in inspect.signature(found).parameters.values():
        assert each.kind is not inspect.Parameter.VAR_POSITIONAL, each
        assert each.annotation is not inspect.Parameter.empty, each


def test_the_version_is_the_projects() -> None:
    """The literal in the package, which costs no import, is the one the wheel is built with."""
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == keyferry.__version__


@pytest.mark.parametrize("name", API)
def test_every_name_of_an_api_module_is_there(name: str) -> None:
    """The ``__all__`` of a wire version names what the module has."""
    module = importlib.import_module(name)
    assert module.__all__
    assert all(hasattr(module, each) for each in module.__all__)


def test_every_exception_is_exported() -> None:
    """No exception and no set of words is left out of the list, and all exceptions have one root."""
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and not name.startswith("_") and value.__module__ == errors.__name__
    }
    # What errors are made of is nobody else's business.
    assert defined - {"TextError"} == set(errors.__all__)
    assert list(errors.__all__) == sorted(errors.__all__)
    assert all(getattr(errors, name).__name__ == name for name in errors.__all__)
    values = {"Detail", "Fault", "Kind", "KubeletReason", "Problem"}
    exceptions = [getattr(errors, name) for name in errors.__all__ if name not in values]
    assert all(issubclass(each, errors.KeyferryError) for each in exceptions)
