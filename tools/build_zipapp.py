"""Build one file for machines that have Python 3.11 or later and no pip: the command, or all reference plugins.

``keyferry`` is the whole command, with the parts of PyYAML and websockets that are written in Python, which have to be
installed for the Python that builds. ``plugins`` runs the plugin whose name the file has, so it is copied or linked
into the kubelet's folder under that name. Both are the same, byte for byte, whenever they are built from the same
sources by the same version of Python.
"""

from __future__ import annotations

import argparse
import io
import py_compile
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(SOURCE))

from keyferry.kit.install import PLUGINS  # noqa: E402 - after the path is set

# What each file is made of. The plugins and the SDK import nothing else (``tests/test_architecture.py``).
COMMAND_PACKAGES = ("keyferry", "keyferry_plugins")
PLUGIN_PACKAGES = (
    "keyferry/_core",
    "keyferry/_net",
    "keyferry/api",
    "keyferry/sdk",
    "keyferry_plugins",
)
PLUGIN_FILES = ("keyferry/__init__.py", "keyferry/errors.py")
FIRST_LINE = b"#!/usr/bin/env -S python3 -IS\n"
# The oldest date that the format has.
DATE = (1980, 1, 1, 0, 0, 0)

COMMAND_MAIN = '''\
"""Run keyferry."""

from keyferry.cli.main import run

run()
'''
PLUGIN_MAIN = '''\
"""Run the plugin that this file is named after, or the one that the first argument names."""

import sys

PLUGINS = {plugins!r}
HELP = """\\
usage: {{file}} PLUGIN [FLAGS]

Run a credential plugin that is in this file. Copied or linked under the name of a plugin, the file is that plugin.

plugins:
  {{plugins}}

'{{file}} PLUGIN --help' lists the flags of one."""


def main():
    name = file = sys.argv[0].rpartition("/")[2]
    if name not in PLUGINS and sys.argv[1:] and sys.argv[1] in PLUGINS:
        name = sys.argv.pop(1)
        sys.argv[0] += f" {{name}}"  # what was typed, for help texts and errors
    if name not in PLUGINS:
        sys.exit(answer_itself(file, sys.argv[1:]))
    module = __import__(PLUGINS[name], fromlist=["main"])
    sys.exit(module.main())


def answer_itself(file, words):
    if words == ["--version"]:
        from keyferry import __version__

        print(f"{{file}} (keyferry {{__version__}})")
        return 0
    known = sorted(each for each in PLUGINS if each.startswith("keyferry-"))
    if words in (["--help"], ["-h"]):
        print(HELP.format(file=file, plugins="\\n  ".join(known)))
        return 0
    problem = f"{{words[0]!r}} is not a plugin" if words else "no plugin is named"
    print(
        f"{{file}}: {{problem}}; copy this file under the name of a plugin, or give one as first argument: "
        f"{{', '.join(known)}}",
        file=sys.stderr,
    )
    return 2


main()
'''


def plugin_modules() -> dict[str, str]:
    """Return the module of each plugin by the names that its program can have."""
    names = ((each.program, each) for each in PLUGINS.values())
    upstream = ((each.upstream, each) for each in PLUGINS.values() if each.upstream)
    return {name: each.module for name, each in (*names, *upstream)}


def sources(packages: tuple[str, ...], files: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """Yield the name and the place of each file to pack, in order; raise FileNotFoundError if a package is missing."""
    packed = [SOURCE / name for name in files]
    for package in packages:
        packed += [SOURCE / package / "__init__.py", *(SOURCE / package).rglob("*")]
    for path in sorted(set(packed)):
        path.stat()
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(SOURCE).as_posix(), path


def package_sources(distributed: str, package: str, *folders: str) -> Iterator[tuple[str, Path]]:
    """Yield those of a package in Python, as it is installed, of these of its *folders* alone, with its license."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{distributed} is not installed for {sys.executable}; make pyz does that")
    root = Path(spec.origin).parent
    for folder in (root, *(root / name for name in folders)):
        for path in sorted(folder.glob("*.py")):
            yield f"{package}/{path.relative_to(root).as_posix()}", path
    files = distribution(distributed).files or ()
    yield f"{package}/LICENSE", next(Path(str(each.locate())) for each in files if each.name == "LICENSE")


def compiled(path: Path, name: str) -> bytes:
    """Return the code of a module, which Python then need not check against its source or compile at every start."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "module.pyc"
        py_compile.compile(
            str(path), str(target), dfile=name, doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
        return target.read_bytes()


def add(archive: zipfile.ZipFile, name: str, content: bytes, method: int) -> None:
    """Add a file whose entry does not depend on when and where it is built."""
    entry = zipfile.ZipInfo(name, DATE)
    entry.external_attr = 0o644 << 16
    entry.compress_type = method
    archive.writestr(entry, content)


def build(what: str) -> bytes:
    """Return the file."""
    if what == "keyferry":
        main = COMMAND_MAIN
        files = [
            *sources(COMMAND_PACKAGES),
            *package_sources("PyYAML", "yaml"),
            *package_sources("websockets", "websockets", "extensions"),
        ]
        method = zipfile.ZIP_DEFLATED  # half the size, which people copy to nodes, for 10 ms of each start
    else:
        main = PLUGIN_MAIN.format(plugins=plugin_modules())
        files = list(sources(PLUGIN_PACKAGES, PLUGIN_FILES))
        method = zipfile.ZIP_STORED  # the kubelet starts it for every pull
    packed = io.BytesIO()
    packed.write(FIRST_LINE)
    with zipfile.ZipFile(packed, "a") as archive:
        add(archive, "__main__.py", main.encode(), method)
        add(archive, "LICENSE", (ROOT / "LICENSE").read_bytes(), method)
        for name, path in files:
            add(archive, name, path.read_bytes(), method)
            if path.suffix == ".py":
                add(archive, f"{name}c", compiled(path, name), method)
    return packed.getvalue()


def main() -> None:
    """Write the file to the path that is given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("keyferry", "plugins"), help="the command, or the plugins")
    parser.add_argument("file", type=Path, metavar="FILE", help="where to")
    args = parser.parse_args()
    target: Path = args.file
    target.parent.mkdir(parents=True, exist_ok=True)
    content = build(args.what)
    target.write_bytes(content)
    target.chmod(0o755)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(f"{target}: {len(content) / 1024:.0f} KiB, starts fastest with Python {version}")


if __name__ == "__main__":
    main()
