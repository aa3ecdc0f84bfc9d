"""The mirrors that containerd uses for an image: ``hosts.toml`` of the registry's folder, or those of its config.

containerd offers the kubelet's credential to every host that asks for one: the kubelet does not name a server in it.
"""

import os
import stat
from collections.abc import Iterator, Sequence

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.values import Value, replace
from keyferry._net.url import parse_url
from keyferry.images.reference import ImageName
from keyferry.pulls.mirrors.containerd_config import RegistrySection, read_section
from keyferry.pulls.mirrors.endpoints import (
    CredentialOffer,
    Endpoint,
    Mirrors,
    RuntimeKind,
    is_registry_host,
)
from keyferry.pulls.mirrors.places import MirrorPlaces
from keyferry.pulls.mirrors.toml_files import Table, TomlProblem, load_toml, subtable

__all__ = ["containerd_mirrors", "containerd_registries"]

_DEFAULT = "_default"
_CAPABILITIES = ("pull", "resolve", "push")
_API = "/v2"
_DOUBT = "config_path is not set, and containerd before 2.2 reads that folder only if it is"


class _Folder(Value):
    """A folder of registry hosts; *is_listed* tells whether a config names it."""

    path: str
    is_listed: bool = True


def containerd_mirrors(image: ImageName, places: MirrorPlaces) -> Mirrors | None:
    """Return where containerd goes for *image*; None if that is its registry alone."""
    try:
        if places.hosts_dir:
            return _in_folders(image, (_Folder(places.hosts_dir),))
        sections = _sections(places)
        found = _in_folders(image, _folders(places, sections)) or _in_config(image, sections)
        return _with_logins(image, found, sections)
    except TomlProblem as problem:
        return Mirrors(RuntimeKind.CONTAINERD, problem.file, problem=problem.problem)


def containerd_registries(places: MirrorPlaces) -> tuple[str, ...]:
    """Return the registries for which containerd has a folder or a setting; files that cannot be read are left out."""
    found: dict[str, None] = {}
    try:
        sections = [] if places.hosts_dir else _sections(places)
    except TomlProblem:
        sections = []
    folders = (_Folder(places.hosts_dir),) if places.hosts_dir else _folders(places, sections)
    for folder in folders:
        try:
            names = sorted(os.listdir(folder.path))
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
    listed = [_Folder(folder) for section in sections for folder in section.folders]
    if places.containerd_config and listed:
        return tuple(listed)
    return (*listed, *(_Folder(folder, is_listed=False) for folder in places.host_folders))


def _in_folders(image: ImageName, folders: Sequence[_Folder]) -> Mirrors | None:
    """Return the mirrors set in the registry's first folder of hosts; as in containerd, the others are not read."""
    for folder in folders:
        for name in _folder_names(image.registry):
            path = os.path.join(folder.path, name)
            try:
                is_folder = stat.S_ISDIR(os.stat(path).st_mode)
            except PermissionError as error:
                raise TomlProblem(folder.path, f"it cannot be read: {error.strerror}") from None
            except OSError:
                continue
            if is_folder:
                # k3s and RKE2 write both their folder and a config that names it.
                is_sure = folder.is_listed or "/rancher/" in folder.path
                return _read_hosts(os.path.join(path, "hosts.toml"), image, "" if is_sure else _DOUBT)
    return None


def _folder_names(registry: str) -> Iterator[str]:
    host, colon, port = registry.rpartition(":")
    if colon and host:
        yield f"{host}_{port}_"
    yield registry
    yield _DEFAULT


def _read_hosts(path: str, image: ImageName, doubt: str) -> Mirrors | None:
    try:
        table = load_toml(path)
    except FileNotFoundError:
        return None
    hosts = subtable(table, "host")
    found = [_endpoint(url, subtable(hosts, url), image) for url in hosts if _can_pull(path, hosts[url])]
    server = table.get("server")
    if not isinstance(server, str) or not server:
        server = f"https://{REGISTRY_HOST if image.registry == HUB else image.registry}"
    if _can_pull(path, table):
        found.append(_endpoint(server, table, image))
    return _mirrors(path, [each for each in found if each is not None], image, doubt)


def _mirrors(path: str, endpoints: Sequence[Endpoint], image: ImageName, doubt: str = "") -> Mirrors | None:
    once = tuple(dict.fromkeys(endpoints))
    found = Mirrors(RuntimeKind.CONTAINERD, path, once, doubt=doubt)
    has_login = any(each.has_login for each in once)
    return found if found.others or has_login or not found.asks_registry(image.path) else None


def _can_pull(path: str, host: object) -> bool:
    """Return whether a host is asked for images; raise TomlProblem for a file that containerd ignores."""
    capabilities = subtable(host).get("capabilities")
    if not capabilities:
        return True
    if not isinstance(capabilities, list):
        raise TomlProblem(path, "capabilities is not a list, so containerd ignores the file")
    words = {str(each).lower() for each in capabilities}
    unknown = sorted(words.difference(_CAPABILITIES))
    if unknown:
        raise TomlProblem(path, f"it has the unknown capability {unknown[0]!r}, so containerd ignores it")
    return bool(words & {"pull", "resolve"})


def _endpoint(text: str, settings: Table, image: ImageName) -> Endpoint | None:
    url = parse_url(text if text.startswith("http") else f"https://{text}")
    if url is None or not url.host:
        return None
    path = os.path.normpath(url.path) if url.path else ""
    if not path.endswith(_API) and settings.get("override_path") is not True:
        path = f"{path.rstrip('/')}{_API}"
    # A header may hold a login of its own; a rewrite is a setting of k3s and RKE2.
    has_login = any(name.lower() == "authorization" for name in subtable(settings, "header"))
    server = f"{url.scheme}://{url.host}"
    return Endpoint(
        f"{server}{path.removesuffix(_API)}",
        url.host,
        f"{server}{path}",
        "" if subtable(settings, "rewrite") else image.path,
        is_registry_host(url.host, image.registry),
        CredentialOffer.UNKNOWN if has_login else CredentialOffer.OFFERED,
        url.scheme == "http" or settings.get("skip_verify") is True,
        has_login,
    )


def _in_config(image: ImageName, sections: Sequence[RegistrySection]) -> Mirrors | None:
    """Return the mirrors that are set in the config itself, which containerd 1 supports."""
    for section in sections:
        urls = section.mirrors.get(image.registry, section.mirrors.get("*", ()))
        found = [each for url in urls if (each := _endpoint(url, {}, image)) is not None]
        if not any(each.host == image.registry for each in found):
            own = _endpoint(REGISTRY_HOST if image.registry == HUB else image.registry, {}, image)
            found += [own] if own is not None else []
        mirrors = _mirrors(section.file, found, image)
        if mirrors is not None:
            return mirrors
    return None


def _with_logins(
    image: ImageName, found: Mirrors | None, sections: Sequence[RegistrySection]
) -> Mirrors | None:
    """Add the logins of containerd's config, which it uses if the kubelet passes no credential."""
    hosts = {host: section.file for section in sections for host in section.logins}
    if found is not None:
        marked = (replace(each, has_login=each.has_login or each.host in hosts) for each in found.endpoints)
        return replace(found, endpoints=tuple(marked))
    own = _endpoint(REGISTRY_HOST if image.registry == HUB else image.registry, {}, image)
    if own is None or own.host not in hosts:
        return None
    return Mirrors(RuntimeKind.CONTAINERD, hosts[own.host], (replace(own, has_login=True),))
