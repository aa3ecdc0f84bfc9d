"""Imports go down the layers, never up and never across."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry
import keyferry_plugins

SOURCE = Path(keyferry.__file__).parent
# Rooms by layer, lowest first. Rooms of one layer do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("_core",),
    ("_net", "show"),
    ("api",),
    ("invoke",),
    ("images", "clusters"),
    ("pulls",),
    ("lint", "kit", "metrics"),
    ("explain",),
    ("bridge", "agent"),
    ("cli",),
)
# Beside the layers: what is exec'd for every call sees the wire types alone.
SDK, SDK_SEES = "sdk", ("errors", "_core", "_net", "api")
PLUGINS = Path(keyferry_plugins.__file__).parent
RANKS = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
# The package itself only hands on names, lazily; running it is the command line's business.
DOORS = ("__init__", "__main__")


def room_of(module: tuple[str, ...]) -> str:
    """The room of a module inside the package."""
    return module[0]


def imported(
    tree: ast.Module, module: tuple[str, ...], *, is_package: bool, package: str = "keyferry"
) -> Iterator[tuple[str, ...]]:
    """The modules of the package that a module imports, wherever in it the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [*absolute(node, (package, *module), is_package=is_package)]
        else:
            continue
        yield from (name[1:] for name in names if name[0] == "keyferry" and len(name) > 1)


def absolute(node: ast.ImportFrom, here: tuple[str, ...], *, is_package: bool) -> Iterator[tuple[str, ...]]:
    start: tuple[str, ...] = ()
    if node.level:
        start = here[: len(here) - node.level + is_package]
    base = (*start, *(node.module.split(".") if node.module else ()))
    # "from keyferry import x" names a room, or a name of the package's own door.
    yield from [(*base, alias.name) for alias in node.names] if base == ("keyferry",) else [base]


def breaches(source: Path) -> list[str]:
    """Every import that goes up or across, as ``importer -> imported``."""
    found = []
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("").parts
        if len(module) == 1 and module[0] in DOORS:
            continue
        is_package = module[-1] == "__init__"
        module = module[:-1] if is_package else module
        room = room_of(module)
        targets = imported(ast.parse(path.read_bytes()), module, is_package=is_package)
        found += [
            f"{'.'.join(module)} -> {'.'.join(target)}"
            for target in targets
            if not is_allowed(room, room_of(target))
        ]
    return found


def is_allowed(room: str, target: str) -> bool:
    """Tell whether one room may import from another: itself, or a lower layer."""
    if target == "__version__":
        return True
    if room == SDK:
        return target == SDK or target in SDK_SEES
    if room not in RANKS or target not in RANKS:
        return False
    if room == "errors":
        return False
    return room == target or RANKS[target] < RANKS[room]


def test_imports_go_down() -> None:
    """No module of the package imports from above or from a neighbour."""
    assert breaches(SOURCE) == []


def test_every_room_has_a_layer() -> None:
    """A new folder or module at the top is placed in a layer before it is used."""
    rooms = {
        room_of((path.stem,))
        for path in SOURCE.iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem not in DOORS
    }
    assert rooms <= {*RANKS, SDK}


def plugin_breaches(source: Path) -> list[str]:
    """Every import of a plugin from the package that is not from its SDK, as ``importer -> imported``."""
    found = []
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("").parts
        targets = imported(ast.parse(path.read_bytes()), module, is_package=False, package="keyferry_plugins")
        found += [f"{'.'.join(module)} -> {'.'.join(target)}" for target in targets if target[0] != SDK]
    return found


def test_plugins_see_the_sdk_alone() -> None:
    """A reference plugin could be anybody's: it uses nothing of the package but what it offers to all."""
    assert plugin_breaches(PLUGINS) == []


def test_a_plugin_that_reaches_further_is_found(tmp_path: Path) -> None:
    """An import from another room is seen in a plugin."""
    (tmp_path / "p.py").write_text("from keyferry.sdk import serve\nfrom keyferry._core.json import loads\n")
    assert plugin_breaches(tmp_path) == ["p -> _core.json"]


@pytest.mark.parametrize(
    ("file", "text", "breach"),
    [
        ("api/x.py", "from keyferry.images import y", "api.x -> images"),
        ("api/x.py", "from keyferry.images.y import z", "api.x -> images.y"),
        ("api/x.py", "import keyferry.images.y", "api.x -> images.y"),
        ("api/x.py", "from ..images import y", "api.x -> images"),
        ("api/deep/__init__.py", "from ...images.y import z", "api.deep -> images.y"),
        ("api/x.py", "from keyferry import images", "api.x -> images"),
        ("images/x.py", "def f():\n    from keyferry.cli import main", "images.x -> cli"),
        ("images/x.py", "if TYPE_CHECKING:\n    from keyferry.agent import y", "images.x -> agent"),
        ("images/x.py", "from keyferry.clusters.y import z", "images.x -> clusters.y"),
        ("agent/x.py", "from keyferry.bridge import y", "agent.x -> bridge"),
        ("errors.py", "from keyferry._core.paths import Path", "errors -> _core.paths"),
        ("_core/x.py", "from ..api import meta", "_core.x -> api"),
        ("_core/x.py", "from keyferry._net.url import Url", "_core.x -> _net.url"),
        ("lint/x.py", "from keyferry.explain.y import z", "lint.x -> explain.y"),
        ("api/x.py", "from keyferry.unheard_of import y", "api.x -> unheard_of"),
        ("api/x.py", "from keyferry import load_providers", "api.x -> load_providers"),
        ("sdk/x.py", "from keyferry.invoke.process import run", "sdk.x -> invoke.process"),
        ("images/x.py", "from keyferry.sdk.http import fetch", "images.x -> sdk.http"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, file: str, text: str, breach: str) -> None:
    """Upward and sideways imports are seen in every spelling and at every place."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert breaches(tmp_path) == [breach]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cli/x.py", "from keyferry.images.load import load_providers"),
        ("images/x.py", "from .y import z\nfrom keyferry.images import w\nimport os, json"),
        ("images/__init__.py", "from .y import z"),
        ("_core/x.py", "from ..errors import KeyferryError\nfrom .y import z"),
        ("explain/x.py", "from keyferry.lint.y import z"),
        ("api/deep/x.py", "from ..codec import Reader\nfrom . import v1"),
        ("__init__.py", "from .images.load import load_providers"),
        (
            "sdk/x.py",
            "from keyferry._core.json import loads\nfrom keyferry.api import meta\nfrom .y import z",
        ),
    ],
)
def test_what_is_allowed_is_no_breach(tmp_path: Path, file: str, text: str) -> None:
    """Own room, lower layers, the standard library and the package's own door are fine."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert breaches(tmp_path) == []
