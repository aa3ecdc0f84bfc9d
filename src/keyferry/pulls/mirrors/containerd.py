"""The mirrors that containerd uses for an image: ``hosts.toml`` of the registry's folder, or those of its config.

containerd offers the kubelet's credential to every host that asks for one: the kubelet does not name a server in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from glob import glob, has_magic

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.host_root import host_root, on_host
from keyferry._core.values import Value, replace
from keyferry._net.address import is_loopback_host
from keyferry._net.url import parse_url
from keyferry.images.reference import ImageName
from keyferry.pulls.mirrors.endpoints import (
    CredentialOffer,
    Endpoint,
    MirrorPlaces,
    Mirrors,
    RuntimeKind,
    is_registry_host,
)
from keyferry.pulls.mirrors.files import (
    HostTrust,
    Table,
    TomlProblem,
    certificate_files,
    check_count,
    load_toml,
    read_trust,
    subtable,
    texts,
    under,
)

_DEFAULT = "_default"
_CAPABILITIES = ("pull", "resolve", "push")
_API = "/v2"
_DOUBT = "config_path is not set, and containerd before 2.2 reads that folder only if it is"
# The CRI plugin in version 3 of the config, in version 2, and in version 1.
_PLUGINS = ("io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri")
_MERGING_VERSION = 3
_MAX_FILES = 200


class _Folder(Value):
    """A folder of registry hosts; *is_listed* tells whether a config names it."""

    path: str
    is_listed: bool = True


def containerd_endpoints(image: ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where containerd goes for *image* and how it connects there; None if no file says anything about it."""
    try:
        if places.hosts_dir:
            # A folder outside of the root, such as a copy, has paths of its own.
            is_below = os.path.abspath(places.hosts_dir).startswith(os.path.join(places.root, ""))
            return _in_folders(image, (_Folder(path=places.hosts_dir),), places.root if is_below else "/")
        sections = _sections(places)
        found = _in_folders(image, _folders(places, sections), places.root) or _in_config(image, sections)
        return _with_logins(image, found, sections)
    except TomlProblem as problem:
        return Mirrors(runtime=RuntimeKind.CONTAINERD, file=problem.file, problem=problem.problem)


def containerd_registries(places: MirrorPlaces) -> tuple[str, ...]:
    """Return the registries for which containerd has a folder or a setting; files that cannot be read are left out."""
    found: dict[str, None] = {}
    try:
        sections = [] if places.hosts_dir else _sections(places)
    except TomlProblem:
        sections = []
    folders = (_Folder(path=places.hosts_dir),) if places.hosts_dir else _folders(places, sections)
    for folder in folders:
        try:
            names = sorted(os.listdir(on_host(folder.path)))
        except OSError:
            continue
        found |= dict.fromkeys(_registry_of(name) for name in names if name != _DEFAULT)
    found |= {registry: None for section in sections for registry in section.mirrors if registry != "*"}
    return tuple(found)


def _registry_of(folder: str) -> str:
    host, _, port = folder.removesuffix("_").rpartition("_")
    return f"{host}:{port}" if folder.endswith("_") and host and port.isdigit() else folder


def _sections(places: MirrorPlaces) -> list[RegistrySection]:
    read = (read_section(path, places.root) for path in places.containerd_configs)
    return [section for section in read if section is not None]


def _folders(places: MirrorPlaces, sections: Sequence[RegistrySection]) -> tuple[_Folder, ...]:
    listed = [_Folder(path=folder) for section in sections for folder in section.folders]
    if places.containerd_config and listed:
        return tuple(listed)
    return (*listed, *(_Folder(path=folder, is_listed=False) for folder in places.host_folders))


def _in_folders(image: ImageName, folders: Sequence[_Folder], root: str) -> Mirrors | None:
    """Return the hosts set in the registry's first folder of hosts; as in containerd, the others are not read."""
    for folder in folders:
        for name in _folder_names(image.registry):
            path = os.path.join(folder.path, name)
            try:
                is_folder = stat.S_ISDIR(os.stat(on_host(path)).st_mode)
            except PermissionError as error:
                raise TomlProblem(folder.path, f"it cannot be read: {error.strerror}") from None
            except OSError:
                continue
            if is_folder:
                # k3s and RKE2 write both their folder and a config that names it.
                is_sure = folder.is_listed or "/rancher/" in folder.path
                found = _read_hosts(os.path.join(path, "hosts.toml"), image, root)
                return found and replace(found, doubt="" if is_sure else _DOUBT)
    return None


def _folder_names(registry: str) -> Iterator[str]:
    host, colon, port = registry.rpartition(":")
    if colon and host:
        yield f"{host}_{port}_"
    yield registry
    yield _DEFAULT


def _read_hosts(path: str, image: ImageName, root: str) -> Mirrors | None:
    """Return the hosts of a hosts.toml, else the registry with the certificates beside it; None if there are none."""
    try:
        table = load_toml(path)
        is_empty = not os.path.getsize(on_host(path))
    except FileNotFoundError:
        is_empty = True
    if is_empty:
        folder = os.path.dirname(path)
        trust = certificate_files(folder, are_paired=False)
        return _mirrors(folder, [_default_server(image, trust)]) if trust != HostTrust() else None
    hosts = subtable(table, "host")
    found = [_endpoint(url, subtable(hosts, url), image, path, root) for url in hosts]
    found = [each for each, url in zip(found, hosts, strict=True) if _can_pull(path, hosts[url])]
    server, can_pull = table.get("server"), _can_pull(path, table)
    if not isinstance(server, str) or not server:
        # Its capabilities do not count then.
        found.append(_default_server(image, read_trust(path, table, root)))
    elif can_pull:
        found.append(_endpoint(server, table, image, path, root))
    return _mirrors(path, found)


def _mirrors(path: str, endpoints: Sequence[Endpoint | None]) -> Mirrors:
    once = dict.fromkeys(each for each in endpoints if each is not None)
    check_count(path, len(once))
    return Mirrors(runtime=RuntimeKind.CONTAINERD, file=path, endpoints=tuple(once))


def _can_pull(path: str, host: object) -> bool:
    """Return whether a host is asked for images."""
    return bool(_capabilities(path, host) & {"pull", "resolve"})


def _capabilities(path: str, host: object) -> set[str]:
    """Return what a host is asked for; raise TomlProblem for a file that containerd ignores."""
    capabilities = subtable(host).get("capabilities")
    if not capabilities:
        return set(_CAPABILITIES)
    if not isinstance(capabilities, list):
        raise TomlProblem(path, "capabilities is not a list, so containerd ignores the file")
    words = {str(each).lower() for each in capabilities}
    unknown = sorted(words.difference(_CAPABILITIES))
    if unknown:
        raise TomlProblem(path, f"it has the unknown capability {unknown[0]!r}, so containerd ignores it")
    return words


def _endpoint(text: str, settings: Table, image: ImageName, path: str, root: str) -> Endpoint | None:
    """Return the host with the URL *text*; *settings* are those that the hosts.toml at *path* has for it."""
    # A manifest is resolved by its tag, and only pulled by its digest.
    needed = {"pull"} if image.digest else {"pull", "resolve"}
    found = _place(
        text, image, read_trust(path, settings, root), keeps_path=settings.get("override_path") is True
    )
    if found is None:
        return None
    return replace(
        found,
        # A rewrite is a setting of k3s and RKE2.
        repository="" if subtable(settings, "rewrite") else image.path,
        resolves=needed <= _capabilities(path, settings),
    )


def _place(text: str, image: ImageName, trust: HostTrust, *, keeps_path: bool = False) -> Endpoint | None:
    url = parse_url(text if text.startswith("http") else f"https://{text}")
    if url is None or not url.host:
        return None
    path = os.path.normpath(url.path) if url.path else ""
    if not path.endswith(_API) and not keeps_path:
        path = f"{path.rstrip('/')}{_API}"
    server = f"{url.scheme}://{url.host}"
    return Endpoint(
        url=f"{server}{path.removesuffix(_API)}",
        host=url.host,
        api=f"{server}{path}",
        repository=image.path,
        is_registry=is_registry_host(url.host, image.registry),
        offer=CredentialOffer.OFFERED,
        is_insecure=url.scheme == "http" or trust.accepts_any,
        has_login=trust.has_login,
        trust=trust,
        # With settings of TLS, containerd takes http:// for a wish, unless the port leaves no doubt.
        falls_back=url.scheme == "http" and trust.sets_tls and not url.host.endswith(":80"),
        namespace="" if url.host == _default_host(image) else image.registry,
    )


def _default_host(image: ImageName) -> str:
    return REGISTRY_HOST if image.registry == HUB else image.registry


def _default_server(image: ImageName, trust: HostTrust) -> Endpoint | None:
    """Return the registry where no file names a server: on loopback it may use plain HTTP and any certificate."""
    host, _, port = image.registry.rpartition(":")
    if not is_loopback_host((host or port).strip("[]")):
        return _place(_default_host(image), image, trust)
    if host and port == "80":
        return _place(f"http://{image.registry}", image, trust)
    found = _place(image.registry, image, replace(trust, accepts_any=True))
    return found and replace(found, is_insecure=False, falls_back=bool(host) and port != "443")


def _in_config(image: ImageName, sections: Sequence[RegistrySection]) -> Mirrors | None:
    """Return the hosts that are set in the config itself, which containerd 1 supports."""
    for section in sections:
        urls = section.mirrors.get(image.registry, section.mirrors.get("*", ()))
        found = [each for url in urls if (each := _config_endpoint(url, image, section)) is not None]
        if not any(each.host == image.registry for each in found):
            own = _default_server(image, section.trusts.get(_default_host(image), HostTrust()))
            found += [own] if own is not None else []
        if urls or any(
            each.trust.sets_tls or each.trust.problem for each in found if each.host in section.trusts
        ):
            return _mirrors(section.file, found)
    return None


def _config_endpoint(url: str, image: ImageName, section: RegistrySection) -> Endpoint | None:
    scheme = "http" if is_loopback_host(url.partition("/")[0].rpartition(":")[0].strip("[]")) else "https"
    parsed = parse_url(url if "://" in url else f"{scheme}://{url}")
    if parsed is None:
        return None
    trust = section.trusts.get(parsed.host, HostTrust())
    # Here containerd takes a path as it is.
    found = _place(
        f"{parsed.scheme}://{parsed.host}{parsed.path}", image, trust, keeps_path=bool(parsed.path)
    )
    return found and replace(found, falls_back=False)


def _with_logins(
    image: ImageName, found: Mirrors | None, sections: Sequence[RegistrySection]
) -> Mirrors | None:
    """Add the logins of containerd's config, which it uses if the kubelet passes no credential."""
    hosts = {host: section.file for section in sections for host in section.logins}
    if found is not None:
        marked = (replace(each, has_login=each.has_login or each.host in hosts) for each in found.endpoints)
        return replace(found, endpoints=tuple(marked))
    own = _default_server(image, HostTrust())
    if own is None or own.host not in hosts:
        return None
    return Mirrors(
        runtime=RuntimeKind.CONTAINERD, file=hosts[own.host], endpoints=(replace(own, has_login=True),)
    )


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
    while pending and len(seen) <= _MAX_FILES:
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
        yield from _glob(place) if "*" in place else (os.path.normpath(place),)


def _glob(pattern: str) -> list[str]:
    """Return the node's files that match *pattern*, sorted."""
    if not host_root():
        return sorted(glob(pattern))
    above, wanted = os.path.split(pattern)
    found = []
    for folder in _glob(above) if has_magic(above) else [above]:
        try:
            names = os.listdir(on_host(folder))
        except OSError:
            continue
        found += [os.path.join(folder, name) for name in names if fnmatch(name, wanted)]
    return sorted(found)


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
