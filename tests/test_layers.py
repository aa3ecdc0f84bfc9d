"""Imports go down the layers, and inside a room down its shelves; never up, never across and never in a circle."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import keyferry
import keyferry_plugins

SOURCE = Path(keyferry.__file__).parent
PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
# Rooms by layer, lowest first. Rooms of one layer do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("_core",),
    ("_net", "show"),
    ("api",),
    ("invoke",),
    ("images", "clusters"),
    ("pulls", "workloads"),
    ("lint", "kit", "metrics"),
    ("explain", "doctor", "page"),
    ("bridge", "agent"),
    ("cli",),
)
# Shelves by tier inside the rooms that have folders, lowest first; a file beside the folders is a shelf of its own.
# Shelves of one tier do not know each other. In rooms without folders it is enough that nothing goes in a circle.
SHELVES: dict[str, tuple[tuple[str, ...], ...]] = {
    "_core": (
        ("compiled",),
        (
            "base64",
            "bounded",
            "clock",
            "digests",
            "docker_hub",
            "extras",
            "files",
            "gotext",
            "lazy",
            "log",
            "paths",
            "type_forms",
            "user_info",
            "values",
            "word_enum",
            "words",
        ),
        ("json_wording", "kept_folder", "masking", "positions", "program", "reasons", "severity"),
        ("json_errors", "secrets"),
        ("json",),
        ("jwt_claims", "yaml_scalars"),
        ("yaml",),
        ("documents",),
    ),
    "api": (
        ("meta", "scheme"),
        ("codec",),
        (
            "agentconfig",
            "clientauthentication",
            "credentialprovider",
            "federation",
            "kubeconfig",
            "kubeletconfig",
            "kuberc",
            "link_line",
            "typed",
        ),
    ),
    "images": (
        ("match", "reference", "missing", "node", "dockerconfig", "credential"),
        ("keyring",),
        ("config", "provider"),
        ("compare", "result"),
        ("why",),
        ("answer",),
        ("warm",),
        ("lookup",),
        ("agent_answer", "load", "registries"),
    ),
    "clusters": (
        ("kubeconfig", "auth"),
        ("headers", "tls"),
        ("access",),
        ("adapters", "request"),
        ("api_call",),
        ("session", "review", "token_request", "access_review"),
        ("exec_info", "load"),
        ("why",),
    ),
    "pulls": (
        ("kubelet_guard", "mirrors", "platform"),
        ("manifest",),
        ("stored_image",),
        ("trial",),
        ("registry", "cri"),
        ("layout", "records"),
        ("puller",),
    ),
    "lint": (
        ("codes", "files", "secrets", "source", "versions"),
        ("report",),
        ("federation",),
        ("providers", "kubeconfig", "records", "nested"),
        ("agent_config", "ignores", "kuberc"),
        ("dispatch",),
        ("target",),
        ("fixes",),
    ),
    "kit": (
        ("plugin_kind",),
        ("lab", "scaffold"),
        ("codes", "rules"),
        ("report",),
        ("conformance", "trace"),
    ),
    "doctor": (
        ("health", "hints", "facts"),
        ("agents", "checks", "online", "document", "text"),
        ("gather", "visit"),
    ),
    "agent": (
        ("access", "decision", "log", "notify", "schedule", "settings", "tenants", "usage"),
        ("journal", "message", "refresher", "sockets", "state"),
        ("connection", "handover", "lookups", "management", "reload", "turns"),
        ("explained", "reply_memo"),
        ("figures", "metrics_port", "programs", "service", "status"),
        ("page",),
        ("process",),
    ),
    "bridge": (
        ("file_change", "json_edit", "json_spans"),
        ("shim",),
        ("kubelet",),
        ("docker",),
    ),
    "cli": (
        ("frame",),
        ("records",),
        ("agent", "bridge", "image", "kube", "plugin", "doctor", "lint", "diff", "completion", "main"),
        ("demo",),
    ),
}
# Errors stand on nothing but these, which import nothing themselves.
FOUNDATION = ("_core.user_info", "_core.word_enum")
# Beside the layers: what is exec'd for every call sees the wire types alone.
SDK, SDK_SEES = "sdk", ("errors", "_core", "_net", "api")
PLUGINS = Path(keyferry_plugins.__file__).parent
# The folder of the plugins that no cloud owns; a cloud's own folder is for that cloud alone.
SHARED = "signing"
RANKS = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
# The package itself only hands on names, lazily; running it is the command line's business.
DOORS = ("", "__main__")


class Import(NamedTuple):
    """One imported name: by which module, from which, and the name, empty if it is the module itself."""

    importer: str
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.importer} -> {self.module}"


def room_of(module: str) -> str:
    """The room of a module inside the package."""
    return module.partition(".")[0]


def modules_of(source: Path) -> dict[str, Path]:
    """Every module below a folder by its dotted name; the folder itself has the empty one."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(source: Path, package: str = "keyferry", of: str = "keyferry") -> tuple[Import, ...]:
    """Everything that the modules of a *package* import from the package *of*, wherever the statement stands."""
    modules = modules_of(source)
    return tuple(
        settle(module, base[1:], name, modules if package == of else {})
        for module, path in modules.items()
        if module not in DOORS
        for node in ast.walk(ast.parse(path.read_bytes()))
        for base, name in named(node, (package, *module.split(".")), is_package=path.stem == "__init__")
        if base[0] == of and (len(base) > 1 or name)
    )


def named(node: ast.AST, here: tuple[str, ...], *, is_package: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """The modules and names in an import statement; ``import x`` names no name."""
    if isinstance(node, ast.Import):
        yield from ((tuple(alias.name.split(".")), "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = here[: len(here) - node.level + is_package] if node.level else ()
        base = (*start, *(node.module.split(".") if node.module else ()))
        yield from ((base, alias.name) for alias in node.names)


def settle(importer: str, base: tuple[str, ...], name: str, modules: Collection[str]) -> Import:
    """Tell a module that is imported by name from a name inside a module."""
    below = ".".join((*base, name))
    # "from keyferry import x" names a room, or a name of the package's own door.
    return (
        Import(importer, below, "")
        if not base or below in modules
        else Import(importer, ".".join(base), name)
    )


def breaches(source: Path) -> list[str]:
    """Every import that goes up or across between rooms, as ``importer -> imported``."""
    found = [
        each
        for each in imports(source)
        if not is_allowed(room_of(each.importer), room_of(each.module))
        and not (room_of(each.importer) == "errors" and each.module in FOUNDATION)
    ]
    return list(dict.fromkeys(map(str, found)))


def is_allowed(room: str, target: str) -> bool:
    """Tell whether one room may import from another: itself, or a lower layer."""
    if target == "__version__":
        return True
    if room == SDK:
        return target == SDK or target in SDK_SEES
    if room not in RANKS or target not in RANKS:
        return False
    return room == target or RANKS[target] < RANKS[room]


def test_imports_go_down() -> None:
    """No module of the package imports from above or from a neighbour."""
    assert breaches(SOURCE) == []


def test_what_errors_stand_on_imports_nothing() -> None:
    """So that no circle can come of it."""
    assert [each for each in imports(SOURCE) if each.importer in FOUNDATION] == []


def test_every_room_has_a_layer() -> None:
    """A new folder or module at the top is placed in a layer before it is used."""
    rooms = {
        path.stem
        for path in SOURCE.iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists())
        and path.stem not in ("__init__", "__main__")
    }
    assert rooms <= {*RANKS, SDK}


def pictured(page: str) -> list[tuple[str, ...]]:
    """The rooms in the pictures of a page, layer by layer, from the top."""
    lines = re.findall(r"^([a-z_]+(?:, [a-z_]+)*) +│", page, re.MULTILINE)
    return [tuple(line.split(", ")) for line in lines]


def test_the_picture_shows_the_rooms_in_their_order() -> None:
    """What docs/architecture.md draws is the tree, layer by layer, and beside it what plugins are made of."""
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    layers = [tuple(room for room in layer if room in rooms) for layer in reversed(LAYERS)]
    assert pictured(PAGE.read_text(encoding="utf-8")) == [
        *(layer for layer in layers if layer),
        (PLUGINS.name,),
        (SDK,),
    ]


def test_the_files_on_the_page_are_there() -> None:
    """Every path that docs/architecture.md names leads to a file or a folder."""
    root = PAGE.parent.parent
    places = (SOURCE, SOURCE.parent, root)
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 50
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def shelf_breaches(source: Path, known: Collection[str] = ()) -> list[str]:
    """Every import that goes up or across between the shelves of a room, as ``importer -> imported``."""
    ranks = {
        (room, shelf): rank
        for room, tiers in SHELVES.items()
        for rank, tier in enumerate(tiers)
        for shelf in tier
    }
    found = []
    for each in imports(source):
        own, other = (tuple(module.split(".")[:2]) for module in (each.importer, each.module))
        if (
            own != other
            and own in ranks
            and other in ranks
            and own[0] == other[0]
            and ranks[other] >= ranks[own]
        ):
            found.append(str(each))
    return [each for each in dict.fromkeys(found) if each not in known]


def test_imports_go_down_the_shelves() -> None:
    """Inside a room each shelf stands on lower ones."""
    assert shelf_breaches(SOURCE) == []


def test_every_shelf_has_a_tier() -> None:
    """Of a room with folders, each folder and each file beside them is placed, and nothing that is not there."""
    found = {
        room.name: {each.stem for each in room.iterdir() if each.stem not in ("__init__", "__pycache__")}
        for room in SOURCE.iterdir()
        if any((each / "__init__.py").exists() for each in (room.iterdir() if room.is_dir() else ()))
    }
    assert {room: {shelf for tier in tiers for shelf in tier} for room, tiers in SHELVES.items()} == found


def circles(graph: Mapping[str, Collection[str]]) -> list[str]:
    """The first circle found in a graph of modules, as ``a -> b -> a``; nothing if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        way: list[str] = error.args[1]
        return [" -> ".join(reversed(way))]
    return []


def graph_of(source: Path, package: str = "keyferry", known: Collection[str] = ()) -> dict[str, set[str]]:
    """Which module imports which, at its head, inside a function or for a type checker alone."""
    graph: dict[str, set[str]] = {}
    for each in imports(source, package, package):
        if str(each) not in known and each.module != "__version__":
            graph.setdefault(each.importer, set()).add(each.module)
    return graph


def test_no_imports_go_in_a_circle() -> None:
    """Also not where the import waits inside a function, or is for the type checker."""
    assert circles(graph_of(SOURCE)) == []
    assert circles(graph_of(PLUGINS, "keyferry_plugins")) == []


def borrowed(source: Path, package: str = "keyferry", of: str = "keyferry") -> list[str]:
    """Every import of a name that begins with an underscore from another module, as ``importer -> module.name``."""
    return [
        f"{each}.{each.name}"
        for each in imports(source, package, of)
        if each.name.startswith("_") and not each.name.startswith("__")
    ]


def test_private_names_stay_in_their_modules() -> None:
    """What another module needs has a name without an underscore."""
    assert borrowed(SOURCE) == []
    assert borrowed(PLUGINS, "keyferry_plugins", "keyferry_plugins") == []


def plugin_breaches(source: Path) -> list[str]:
    """Every import of a plugin from the package that is not from its SDK, as ``importer -> imported``."""
    found = [each for each in imports(source, "keyferry_plugins") if room_of(each.module) != SDK]
    return list(dict.fromkeys(map(str, found)))


def cloud_breaches(source: Path) -> list[str]:
    """Every import out of the folder of one cloud into another's, and executables that stand on two."""
    folders = {path.name for path in source.iterdir() if path.is_dir()} - {SHARED}
    found, used = [], dict[str, set[str]]()
    for each in imports(source, "keyferry_plugins", "keyferry_plugins"):
        own, other = room_of(each.importer), room_of(each.module)
        if other in (own, SHARED):
            continue
        if own not in folders and own != SHARED and other in folders:
            used.setdefault(own, set()).add(other)
        else:
            found.append(str(each))
    found += [f"{each} -> {', '.join(sorted(clouds))}" for each, clouds in used.items() if len(clouds) > 1]
    return list(dict.fromkeys(found))


# Who else than `_net.url` may read URLs by the standard library: what is handed to other libraries is read as they do.
READ_URLS = ("_net.url", "clusters.adapters", "show.sarif")


def outside_readers(source: Path, package: str) -> list[str]:
    """Every import of the standard library's HTTP client and URL parser, as ``importer -> module``."""
    return [
        f"{each.importer} -> {of}.{each.module}"
        for of in ("http", "urllib")
        for each in imports(source, package, of)
        if each.module in ("client", "request", "parse")
    ]


def test_requests_are_sent_and_urls_read_in_one_place() -> None:
    """Another client would have other rules for proxies, trust and limits, another parser for who gets a secret."""
    found = [*outside_readers(SOURCE, "keyferry"), *outside_readers(PLUGINS, "keyferry_plugins")]
    assert [each for each in found if not (each.startswith(READ_URLS) and each.endswith("parse"))] == []
    assert any(each.startswith("_net.url ") for each in found)


def test_no_cloud_imports_another() -> None:
    """Each executable stands on one folder of its own and on what is shared."""
    assert cloud_breaches(PLUGINS) == []


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
        ("errors/x.py", "from keyferry._core.paths import Path", "errors.x -> _core.paths"),
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
        ("errors/x.py", "from keyferry.errors.y import z"),
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


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a tree of modules."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("file", "text", "breach"),
    [
        (
            "images/match/x.py",
            "from keyferry.images.provider.y import z",
            "images.match.x -> images.provider.y",
        ),
        ("images/config/x.py", "from ..provider.y import z", "images.config.x -> images.provider.y"),
        ("images/keyring.py", "from keyferry.images import lookup", "images.keyring -> images.lookup"),
        (
            "clusters/auth/x.py",
            "def f():\n    from keyferry.clusters.session import y",
            "clusters.auth.x -> clusters.session",
        ),
    ],
)
def test_a_step_up_the_shelves_is_found(tmp_path: Path, file: str, text: str, breach: str) -> None:
    """From folder to folder and between files beside them, also where the import waits inside a function."""
    lay(tmp_path, {"images/lookup.py": "", file: text})
    assert shelf_breaches(tmp_path) == [breach]
    assert shelf_breaches(tmp_path, [breach]) == []


def test_a_step_down_the_shelves_is_no_breach(tmp_path: Path) -> None:
    """Nor is one inside a shelf, nor one to another room, which is the layers' business."""
    text = "from keyferry.images.match.x import y\nfrom .z import w\nfrom keyferry._core.json import loads"
    assert shelf_breaches(lay(tmp_path, {"images/provider/x.py": text})) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from keyferry.api.b import x", "from keyferry.api.a import y"),
        ("from . import b", "from .a import y"),
        ("from keyferry.api.b import x", "def f():\n    from keyferry.api.a import y"),
        ("import keyferry.api.b", "if TYPE_CHECKING:\n    from keyferry.api.a import y"),
    ],
)
def test_a_circle_is_found(tmp_path: Path, first: str, second: str) -> None:
    """In every spelling and at every place."""
    lay(tmp_path, {"api/a.py": first, "api/b.py": second, "api/c.py": "from .a import x"})
    assert circles(graph_of(tmp_path)) in (
        ["api.a -> api.b -> api.a"],
        ["api.b -> api.a -> api.b"],
    )
    assert circles(graph_of(tmp_path, known=["api.b -> api.a"])) == []


def test_a_borrowed_private_name_is_found(tmp_path: Path) -> None:
    """A module or a dunder that begins with an underscore is none."""
    files = {
        "_core/json.py": "",
        "api/a.py": "from keyferry._core import json\nfrom keyferry._core.json import _secret as s\n"
        "from keyferry import __version__, _core",
    }
    assert borrowed(lay(tmp_path, files)) == ["api.a -> _core.json._secret"]


def test_a_cloud_that_knows_another_is_found(tmp_path: Path) -> None:
    """Also an executable that stands on two clouds, and what is shared knowing a cloud."""
    files = {
        "aws/x.py": "from keyferry_plugins.google.y import z",
        "google/y.py": "from .z import w\nfrom keyferry_plugins.signing.x import y",
        "signing/x.py": "from keyferry_plugins.aws.x import y",
        "good.py": "from keyferry_plugins.aws.x import y\nfrom keyferry_plugins.signing.x import z",
        "bad.py": "from keyferry_plugins.aws.x import y\nfrom keyferry_plugins.google.y import z",
        "lean.py": "from keyferry_plugins.good import provide",
    }
    assert cloud_breaches(lay(tmp_path, files)) == [
        "aws.x -> google.y",
        "lean -> good",
        "signing.x -> aws.x",
        "bad -> aws, google",
    ]
