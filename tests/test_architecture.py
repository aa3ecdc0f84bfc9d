"""What holds between packages and modules, wherever a function stands.

Imports go down the layers and never in a circle; nobody uses a private name of another module; there is one HTTP
client; and plugins run without heavy modules. Packages have names here. Their files and folders have none, so that code
can be moved.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

import keyferry
from support.fake_cloud import Received, Reply
from support.federation import account_token, federation, rule_of, write_config
from support.plugins import write_executable
from support.reference import image_request
from support.sdk_plugins import cluster_plugin, exec_info, image_plugin

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(keyferry.__file__).parents[1]
OURS = ("keyferry", "keyferry_plugins")

# Packages by layer, lowest first. Packages of one layer do not import each other, except the two at the bottom: errors
# take plain values from _core, and _core raises errors.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "_core"),
    ("_net", "show"),
    ("api",),
    ("invoke",),
    ("images", "clusters"),
    ("workloads", "pulls"),
    ("lint", "kit", "metrics"),
    ("explain", "doctor", "page"),
    ("agent", "bridge"),
    ("cli",),
    ("__main__",),
)
BOTTOM = LAYERS[0]
RANKS = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}
# Beside the layers: what is executed for each call of a plugin. Our own plugins see the same as the SDK, and the SDK.
SDK, SDK_SEES = "sdk", ("errors", "_core", "_net", "api")
# Packages that read URLs with the standard library: the one URL reader, and what hands addresses to other libraries.
URL_READERS = ("_net", "clusters", "show")

# The programs that others execute for a pull or a request, and their modules; those that are plugins.
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PROGRAMS = {
    name: place.partition(":")[0]
    for name, place in PROJECT["scripts"].items()
    if not place.startswith("keyferry.cli.")
}
PLUGINS = {name: module for name, module in PROGRAMS.items() if module.startswith("keyferry_plugins.")}
# Modules that take longer to load than a plugin has to run.
HEAVY = frozenset({"argparse", "asyncio", "dataclasses", "http.client", "inspect", "logging", "yaml"})


class Module(NamedTuple):
    """A module of a tree: its name, the package that its relative imports begin at, and its syntax tree."""

    name: str
    package: str
    tree: ast.Module


class Import(NamedTuple):
    """A name that a module imports from another one; it is empty where the module itself is imported."""

    importer: str
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.importer} -> {self.module}{'.' if self.name else ''}{self.name}"


@cache
def modules(source: Path) -> dict[str, Module]:
    """Every module of ours below a folder, by its name; a wheel is installed beside those of others."""
    found = {}
    for path in sorted(path for name in OURS for path in (source / name).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        package = name if is_package else name.rpartition(".")[0]
        found[name] = Module(name, package, ast.parse(path.read_bytes()))
    return found


@cache
def imports(source: Path, *, only_run: bool = False) -> tuple[Import, ...]:
    """All imports of the modules below a folder; with *only_run*, those that run when the importer is loaded."""
    return tuple(
        each for module in modules(source).values() for each in imports_of(module, source, only_run=only_run)
    )


def imports_of(module: Module, source: Path, *, only_run: bool) -> Iterator[Import]:
    known = modules(source)
    for node in run_at_import(module.tree) if only_run else ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (Import(module.name, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name(f"{'.' * node.level}{node.module or ''}", module.package)
            for alias in node.names:
                below = f"{base}.{alias.name}"
                is_module = below in known
                yield Import(module.name, below if is_module else base, "" if is_module else alias.name)
        elif isinstance(node, ast.Call) and (name := imported_by(node)):
            yield Import(module.name, resolve_name(name, module.package), "")


def imported_by(call: ast.Call) -> str:
    """The module that a call of ``__import__`` or ``import_module`` names, if that is a literal."""
    match call:
        case ast.Call(
            func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return name
    return ""


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is loaded: neither the bodies of functions nor what is for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from run_at_import(other)
            continue
        yield child
        yield from run_at_import(child)


def package_of(module: str) -> str:
    """The package of a module below ``keyferry``; for any other module, its first name."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "keyferry" else first


def is_allowed(each: Import) -> bool:
    """Tell whether the layers permit an import of a module of ours."""
    package, target = package_of(each.importer), package_of(each.module)
    if package == target or not package:  # the package itself hands on names, lazily
        return True
    if each.module == "keyferry":
        return each.name in ("", "__version__")
    if package == "keyferry_plugins":
        return target in (SDK, *SDK_SEES)
    if package == SDK:
        return target in SDK_SEES
    if package in BOTTOM and target in BOTTOM:
        return True
    return package in RANKS and target in RANKS and RANKS[target] < RANKS[package]


def of_ours(found: Iterable[Import]) -> Iterator[Import]:
    return (each for each in found if each.module.partition(".")[0] in OURS)


def breaches(source: Path) -> list[str]:
    """Every import that does not go down."""
    return sorted({str(each) for each in of_ours(imports(source)) if not is_allowed(each)})


def cycle(source: Path) -> list[str]:
    """The modules of a cycle of imports, if there is one."""
    graph: dict[str, set[str]] = {}
    for each in of_ours(imports(source, only_run=True)):
        graph.setdefault(each.importer, set()).add(each.module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def borrowed(source: Path) -> list[str]:
    """Every private name of one of our modules that another module imports or reaches through the module."""
    found = {str(each) for each in of_ours(imports(source)) if is_private(each.name)}
    for module in modules(source).values():
        bound = bound_modules(module, modules(source))
        found |= {
            f"{module.name} -> {bound[node.value.id]}.{node.attr}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in bound
            and is_private(node.attr)
        }
    return sorted(found)


def bound_modules(module: Module, known: Collection[str]) -> dict[str, str]:
    """The modules of ours that stand under a name in a module."""
    found: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name(f"{'.' * node.level}{node.module or ''}", module.package)
            found |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
    return {name: target for name, target in found.items() if target in known}


def other_clients(source: Path) -> list[str]:
    """Every import of the standard library's HTTP client, and of its URL reader where it does not belong."""
    return sorted(
        str(each)
        for each in imports(source)
        if f"{each.module}.{each.name}".startswith(("http.client", "urllib.request"))
        or (
            f"{each.module}.{each.name}".startswith("urllib.parse")
            and package_of(each.importer) not in URL_READERS
        )
    )


def test_imports_go_down() -> None:
    """Also those inside functions, and for the type checker alone."""
    assert breaches(SOURCE) == []


def test_every_package_has_a_layer() -> None:
    """A new one is placed before it is used."""
    packages = {package_of(name) for name in modules(SOURCE)} - {""}
    assert packages <= {*RANKS, SDK, "keyferry_plugins"}


def test_no_imports_go_in_a_circle() -> None:
    """Where modules are loaded; an import inside a function, or for the type checker, may close one."""
    assert cycle(SOURCE) == []


def test_private_names_stay_in_their_modules() -> None:
    """Those of objects are ruff's business."""
    assert borrowed(SOURCE) == []


def test_requests_are_sent_and_urls_read_in_one_place() -> None:
    """Another client would have other rules for proxies, trust and limits, another reader for who gets a secret."""
    assert other_clients(SOURCE) == []


def test_the_page_shows_the_layers() -> None:
    """The pictures of docs/architecture.md: the layers from the top, and what stands beside them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^([a-z_]+(?:, [a-z_]+)*) +│", page, re.MULTILINE)
    layers = [set(layer) for layer in reversed(LAYERS) if layer != ("__main__",)]
    assert [set(line.split(", ")) for line in lines] == [*layers, {"keyferry_plugins"}, {SDK}]


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a tree of modules."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_import_that_goes_up_is_found(tmp_path: Path) -> None:
    """However it is written, and wherever it stands."""
    files = {
        "keyferry/api/absolute.py": "from keyferry.images import y\nimport keyferry.cli.z\nfrom keyferry import pull",
        "keyferry/api/relative.py": "from ..images import y",
        "keyferry/api/inner/__init__.py": "from ...images import y",
        "keyferry/api/called.py": "__import__('keyferry.images.y')\nimport_module('..cli', 'keyferry.api')",
        "keyferry/errors.py": "import keyferry.api",
        "keyferry/images/inside.py": "def f():\n    import keyferry.cli",
        "keyferry/images/beside.py": "import keyferry.clusters, keyferry.sdk, keyferry.new",
        "keyferry/images/types.py": "if TYPE_CHECKING:\n    import keyferry.agent",
        "keyferry/sdk/a.py": "import keyferry.invoke",
        "keyferry/kit/a.py": "import keyferry_plugins.ecr",
        "keyferry_plugins/a.py": "import keyferry.invoke.run",
    }
    assert breaches(lay(tmp_path, files)) == [
        "keyferry.api.absolute -> keyferry.cli.z",
        "keyferry.api.absolute -> keyferry.images.y",
        "keyferry.api.absolute -> keyferry.pull",
        "keyferry.api.called -> keyferry.cli",
        "keyferry.api.called -> keyferry.images.y",
        "keyferry.api.inner -> keyferry.images.y",
        "keyferry.api.relative -> keyferry.images.y",
        "keyferry.errors -> keyferry.api",
        "keyferry.images.beside -> keyferry.clusters",
        "keyferry.images.beside -> keyferry.new",
        "keyferry.images.beside -> keyferry.sdk",
        "keyferry.images.inside -> keyferry.cli",
        "keyferry.images.types -> keyferry.agent",
        "keyferry.kit.a -> keyferry_plugins.ecr",
        "keyferry.sdk.a -> keyferry.invoke",
        "keyferry_plugins.a -> keyferry.invoke.run",
    ]


def test_an_import_that_goes_down_is_allowed(tmp_path: Path) -> None:
    files = {
        "keyferry/__init__.py": "from .images.load import load_providers",
        "keyferry/cli/a.py": "from keyferry.images.y import z\nfrom keyferry import __version__",
        "keyferry/images/a.py": "from .y import z\nfrom keyferry.images import w\nimport os, json",
        "keyferry/errors.py": "from keyferry._core.y import z",
        "keyferry/_core/a.py": "from ..errors import KeyferryError\nfrom .y import z",
        "keyferry/sdk/a.py": "from keyferry._core.json import loads\nfrom keyferry.api import meta",
        "keyferry_plugins/a.py": "from keyferry.sdk import serve\nfrom keyferry._core import json\nfrom . import y",
    }
    assert breaches(lay(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("second", "is_cycle"),
    [
        ("from . import a", True),
        ("class C:\n    try:\n        from .a import y\n    except ImportError: ...", True),
        ("def f():\n    from .a import y", False),
        ("if TYPE_CHECKING:\n    from .a import y", False),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from .a import y", True),
    ],
)
def test_a_cycle_is_found(tmp_path: Path, second: str, is_cycle: bool) -> None:
    first = "from keyferry.api.b import x"
    lay(tmp_path, {"keyferry/api/a.py": first, "keyferry/api/b.py": second, "keyferry/api/c.py": "import os"})
    assert set(cycle(tmp_path)) == ({"keyferry.api.a", "keyferry.api.b"} if is_cycle else set())


def test_a_borrowed_private_name_is_found(tmp_path: Path) -> None:
    """A module or a dunder that begins with an underscore is none."""
    files = {
        "keyferry/_core/json.py": "",
        "keyferry/api/a.py": "from keyferry._core.json import _secret as s\nfrom keyferry import __version__",
        "keyferry/api/b.py": "from keyferry._core import json\njson._other; json.__name__; self._own",
        "keyferry/api/c.py": "import keyferry._core.json as j\nj._third",
    }
    assert borrowed(lay(tmp_path, files)) == [
        "keyferry.api.a -> keyferry._core.json._secret",
        "keyferry.api.b -> keyferry._core.json._other",
        "keyferry.api.c -> keyferry._core.json._third",
    ]


def test_another_client_or_reader_of_urls_is_found(tmp_path: Path) -> None:
    files = {
        "keyferry/_net/a.py": "import http.client\nfrom urllib.request import urlopen",
        "keyferry/_net/b.py": "from http import client\nfrom urllib.parse import urlsplit",
        "keyferry/pulls/a.py": "from urllib.parse import urlsplit",
    }
    assert other_clients(lay(tmp_path, files)) == [
        "keyferry._net.a -> http.client",
        "keyferry._net.a -> urllib.request.urlopen",
        "keyferry._net.b -> http.client",
        "keyferry.pulls.a -> urllib.parse.urlsplit",
    ]


# Runs a program without site, which loads modules of its own, and tells in the last line what it has loaded.
PROBE = """\
import atexit, sys
sys.path[:0] = {paths!r}
atexit.register(lambda: sys.stderr.write("\\n" + " ".join(sys.modules)))
{program}
"""
# Where keyferry is, and what it may load: without PyYAML beside it, an import that fails would not be seen.
PATHS = [str(SOURCE), str(Path(yaml.__file__).parents[1])]


def loaded_by(program: str, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> set[str]:
    """The modules that a program ends with, in a fresh interpreter; it has to succeed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROBE.format(paths=PATHS, program=program), *args],
        input=stdin,
        env={"PATH": os.environ["PATH"], **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("\n")[2].split())


def test_a_heavy_module_is_seen() -> None:
    """Also one that another module loads."""
    assert loaded_by(f"import {', '.join(HEAVY)}") >= HEAVY
    assert "inspect" in loaded_by("import dataclasses")


def test_an_import_loads_nothing_heavy() -> None:
    """All modules of the SDK, all that reference plugins are made of, and the other programs."""
    ours = ("keyferry.sdk.", "keyferry_plugins.")
    names = {name for name in modules(SOURCE) if f"{name}.".startswith(ours)} | set(PROGRAMS.values())
    assert HEAVY.isdisjoint(loaded_by(f"import {', '.join(sorted(names))}"))


FETCH = """\
from keyferry.sdk import Deadline
from keyferry.sdk.http import fetch
assert fetch("GET", "https://cloud.example/token", deadline=Deadline(10)).json()["access_token"]
"""


@pytest.mark.parametrize(
    ("program", "stdin", "env"),
    [
        (image_plugin(), image_request("reg.io/app"), {}),
        (cluster_plugin(), "", exec_info()),
        (FETCH, "", {}),
    ],
    ids=["image", "cluster", "https"],
)
def test_a_plugin_of_the_sdk_runs_without_heavy_modules(
    tmp_path: Path, program: str, stdin: str, env: dict[str, str]
) -> None:
    with federation(tmp_path, answer, "cloud.example") as cloud:
        assert HEAVY.isdisjoint(loaded_by(program, stdin=stdin, env={**cloud.env, **env}))


def answer(_: Received) -> Reply:
    """An answer in which every cloud's plugin finds a login."""
    issuer = "https://issuer.example"
    return Reply(
        document={
            "authorizationData": [{"authorizationToken": "QVdTOnBhc3M=", "expiresAt": 2_000_000_000}],
            "access_token": "the-token",
            "token_type": "Bearer",
            "expires_in": 3600,
            "issuer": issuer,
            "token_endpoint": f"{issuer}/token",
        }
    )


class Case(NamedTuple):
    """A run of a plugin: its arguments, the image that it is asked for, or none, and its environment."""

    args: tuple[str, ...] = ()
    image: str = ""
    env: Mapping[str, str] = {}
    has_token: bool = False


AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
GOOGLE = {"GOOGLE_APPLICATION_CREDENTIALS": "google.json"}
OIDC = ("--oidc-issuer-url=https://issuer.example", "--oidc-client-id=c", "--oidc-client-secret=s")
# One run of each plugin that ends with a login.
CASES = {
    "keyferry-acr": Case(("azure.json",), "myreg.azurecr.io/app"),
    "keyferry-aks": Case(
        ("--login=spn", "--server-id=s", "--client-id=c", "--client-secret=x", "--tenant-id=t")
    ),
    "keyferry-docker-helper": Case(("--helper=test",), "reg.io/app"),
    "keyferry-ecr": Case((), "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app", AWS),
    "keyferry-eks": Case(("get-token", "--cluster-name=c"), env=AWS),
    "keyferry-federate": Case(("--config=federation.json",), "zot.example.com:5000/app", has_token=True),
    "keyferry-gcr": Case((), "gcr.io/project/app", GOOGLE),
    "keyferry-gke": Case(("--use_application_default_credentials",), env=GOOGLE),
    "keyferry-oidc": Case((*OIDC, "--grant-type=client-credentials", "--oidc-use-access-token")),
    "keyferry-static": Case(("--docker-config=docker.json",), "reg.io/app"),
}
HOSTS = (
    "api.ecr.eu-west-1.amazonaws.com",
    "issuer.example",
    "login.microsoftonline.com",
    "oauth2.googleapis.com",
)


def write_files(folder: Path) -> None:
    """Write the files that the runs name."""
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    files: dict[str, object] = {
        "azure.json": {"aadClientId": "c", "aadClientSecret": "s", "tenantId": "t"},
        "docker.json": {"auths": {"reg.io": {"username": "u", "password": "p"}}},
        "google.json": user,
    }
    for name, document in files.items():
        (folder / name).write_text(json.dumps(document))
        (folder / name).chmod(0o600)
    login = json.dumps({"ServerURL": "reg.io", "Username": "u", "Secret": "p"})
    write_executable(folder / "docker-credential-test", f"#!/bin/sh\necho '{login}'\n")
    write_config(folder / "federation.json", rule_of("passthrough"))


@pytest.mark.skipif(sys.platform == "win32", reason="runs a shell script")
@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_runs_without_heavy_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """From the request to its answer, calls of a cloud included."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    case = CASES[name]
    token = account_token() if case.has_token else ""
    stdin = image_request(case.image, token=token) if case.image else ""
    program = f"from {PLUGINS[name]} import main; main()"
    with federation(tmp_path, answer, *HOSTS) as cloud:
        env = {**cloud.env, **exec_info(), **case.env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        assert HEAVY.isdisjoint(loaded_by(program, *case.args, stdin=stdin, env=env))
