"""containerd's config: the folders of registry hosts, and the mirrors that are set in the config itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from glob import glob

from keyferry._core.values import Value
from keyferry.pulls.mirrors.toml_files import Table, TomlProblem, load_toml, subtable, texts, under
from keyferry.pulls.mirrors.trust import HostTrust

__all__ = ["RegistrySection", "read_section"]

# The CRI plugin in version 3 of the config, in version 2, and in version 1.
_PLUGINS = ("io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri")
_MERGING_VERSION = 3
_MOST_FILES = 200


class RegistrySection(Value):
    """The section ``registry`` of the CRI plugin: *folders* are those of ``config_path``.

    *mirrors* are URLs by registry, *logins* the hosts for which a credential is set, *trusts* the TLS settings by host,
    which count without such folders. *file* is the config.
    """

    file: str
    folders: tuple[str, ...] = ()
    mirrors: Mapping[str, tuple[str, ...]] = {}
    logins: frozenset[str] = frozenset()
    trusts: Mapping[str, HostTrust] = {}


def read_section(path: str, root: str = "/") -> RegistrySection | None:
    """Return the section in a config and the files that it imports; None if there is no such config.

    Raise TomlProblem if a file cannot be read, or if the section is not known.
    """
    try:
        tables = _read_all(path, root)
    except FileNotFoundError:
        return None
    version = tables[0].get("version", 1)
    merged = _section(path, _plugins(tables, is_merged=True), root)
    # Only containerd 2 reads version 3, and it merges plugins; containerd 1 replaces a plugin by a later file's.
    if not isinstance(version, int) or version >= _MERGING_VERSION or len(tables) == 1:
        return merged
    if _section(path, _plugins(tables, is_merged=False), root) != merged:
        problem = "its imports set the same plugin, which containerd 1 replaces and containerd 2 merges"
        raise TomlProblem(path, problem)
    return merged


def _read_all(path: str, root: str) -> list[Table]:
    """Return the tables of a config and of its imports, breadth first as in containerd, each file once."""
    tables, seen, pending = [], {path}, [path]
    while pending and len(seen) <= _MOST_FILES:
        file = pending.pop(0)
        try:
            table = load_toml(file)
        except FileNotFoundError:
            if file == path:
                raise
            raise TomlProblem(path, f"it imports {file}, which does not exist") from None
        tables.append(table)
        new = dict.fromkeys(each for each in _imports(table, file, root) if each not in seen)
        seen.update(new)
        pending.extend(new)
    return tables


def _imports(table: Table, file: str, root: str) -> Iterator[str]:
    for pattern in texts(table.get("imports")):
        # A relative path is relative to its file, which is below the root already.
        is_relative = not os.path.isabs(pattern)
        place = os.path.join(os.path.dirname(file), pattern) if is_relative else under(root, pattern)
        yield from sorted(glob(place)) if "*" in place else (os.path.normpath(place),)


def _plugins(tables: Sequence[Table], *, is_merged: bool) -> Table:
    plugins: Table = {}
    for table in tables:
        for name, value in subtable(table, "plugins").items():
            before = plugins.get(name)
            is_both = is_merged and isinstance(before, dict) and isinstance(value, dict)
            plugins[name] = _merge(before, value) if is_both else value
    return plugins


def _merge(base: object, patch: object) -> object:
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    return base | {name: _merge(base.get(name), value) for name, value in patch.items()}


def _section(path: str, plugins: Table, root: str) -> RegistrySection:
    """Return the section of the plugin that is set; in version 2 and 3 they have different names."""
    table = next((found for name in _PLUGINS if (found := subtable(plugins, name, "registry"))), {})
    folders = table.get("config_path")
    listed = [folder for folder in folders.split(":") if folder] if isinstance(folders, str) else []
    mirrors = {
        registry: tuple(texts(subtable(entry).get("endpoint")))
        for registry, entry in subtable(table, "mirrors").items()
    }
    configs = subtable(table, "configs")
    logins = frozenset(host for host in configs if subtable(configs, host, "auth"))
    if listed and mirrors:
        problem = "it sets config_path and mirrors, and with both containerd's CRI plugin does not start"
        raise TomlProblem(path, problem)
    trusts = {host: _trust(subtable(configs, host, "tls"), root) for host in configs}
    return RegistrySection(
        file=path,
        folders=tuple(under(root, folder) for folder in listed),
        mirrors=mirrors,
        logins=logins,
        trusts=trusts,
    )


def _trust(table: Table, root: str) -> HostTrust:
    files = [table.get(name) for name in ("ca_file", "cert_file", "key_file")]
    authority, certificate, key = (
        under(root, each) if isinstance(each, str) and each else "" for each in files
    )
    if bool(certificate) != bool(key):
        return HostTrust(problem=f"{certificate or key!r} is set without the other of cert_file and key_file")
    return HostTrust(
        ca_files=(authority,) if authority else (),
        client_pairs=((certificate, key),) if certificate else (),
        accepts_any=table.get("insecure_skip_verify") is True,
    )
