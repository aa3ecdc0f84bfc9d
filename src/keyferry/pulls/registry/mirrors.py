"""Find the mirrors that containerd uses for a registry; keyferry itself sends requests to the registry only."""

import os
import stat
from collections.abc import Iterator, Sequence
from glob import glob

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.values import Value

__all__ = ["Mirrors", "find_mirrors"]

# The folders that containerd, nerdctl, k3s and RKE2 read in addition to those set in containerd's config.
_HOST_FOLDERS = (
    "etc/containerd/certs.d",
    "var/lib/rancher/k3s/agent/etc/containerd/certs.d",
    "var/lib/rancher/rke2/agent/etc/containerd/certs.d",
)
_CONFIGS = (
    "etc/containerd/config.toml",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
# The section of the CRI plugin in versions 3 and 2 of that config, and in version 1.
_SECTIONS = (
    ("plugins", "io.containerd.cri.v1.images", "registry"),
    ("plugins", "io.containerd.grpc.v1.cri", "registry"),
    ("plugins", "cri", "registry"),
)
_DEFAULT = "_default"
_Table = dict[str, object]


class Mirrors(Value):
    """The hosts that *file* sets as mirrors of a registry, or the *problem* that kept the file from being read."""

    file: str
    hosts: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.file} may name a mirror, but {self.problem}"
        names = ", ".join(map(repr, self.hosts))
        if len(self.hosts) > 1:
            return f"containerd has mirrors for it, {names} in {self.file}, which were not tried"
        return f"containerd has a mirror for it, {names} in {self.file}, which was not tried"


def find_mirrors(registry: str, *, hosts_dir: str = "", root: str = "/") -> Mirrors | None:
    """Return the mirrors that containerd uses for *registry*, or None; if *hosts_dir* is given, read only that."""
    if hosts_dir:
        return _in_folders(registry, (hosts_dir,))
    try:
        configs = [
            (path, table) for path in _CONFIGS for table in _read_config(os.path.join(root, path), root)
        ]
    except PermissionError as error:
        return _unread(str(error.filename), error)
    sections = [(path, section) for path, table in configs for section in _sections(table)]
    listed = [_under(root, folder) for _, section in sections for folder in _config_path(section)]
    found = _in_folders(registry, (*listed, *(os.path.join(root, folder) for folder in _HOST_FOLDERS)))
    return found or next(_endpoints(registry, root, sections), None)


def _in_folders(registry: str, folders: Sequence[str]) -> Mirrors | None:
    """Return the mirrors set in the registry's first folder of hosts; as in containerd, the others are not read."""
    for folder in folders:
        for name in _folder_names(registry):
            try:
                is_folder = stat.S_ISDIR(os.stat(os.path.join(folder, name)).st_mode)
            except PermissionError as error:
                return _unread(folder, error)
            except OSError:
                continue
            if is_folder:
                return _read_hosts(os.path.join(folder, name, "hosts.toml"), registry)
    return None


def _folder_names(registry: str) -> Iterator[str]:
    host, colon, port = registry.rpartition(":")
    if colon and host:
        yield f"{host}_{port}_"
    yield registry
    yield _DEFAULT


def _read_hosts(path: str, registry: str) -> Mirrors | None:
    try:
        table = _load(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unread(path, error)
    except ValueError:
        return Mirrors(path, problem="it is not TOML")
    hosts = table.get("host")
    urls = [url for url, host in hosts.items() if _can_pull(host)] if isinstance(hosts, dict) else []
    server = table.get("server")
    others = tuple(dict.fromkeys(_others((*urls, server if isinstance(server, str) else ""), registry)))
    return Mirrors(path, others) if others else None


def _unread(path: str, error: OSError) -> Mirrors:
    return Mirrors(path, problem=f"it cannot be read: {error.strerror}")


def _can_pull(host: object) -> bool:
    capabilities = host.get("capabilities") if isinstance(host, dict) else None
    if not isinstance(capabilities, list):
        return True
    return bool({"pull", "resolve"}.intersection(map(str, capabilities)))


def _others(urls: Sequence[str], registry: str) -> Iterator[str]:
    """Yield the URLs whose host is not the registry itself."""
    own = {registry, f"{registry}:443", f"{registry}:80"} | ({REGISTRY_HOST} if registry == HUB else set())
    for url in urls:
        host = url.split("://")[-1].partition("/")[0]
        if host and host not in own:
            yield url


def _read_config(path: str, root: str) -> Iterator[_Table]:
    """Yield a config of containerd and its imports; raise PermissionError, skip files that are otherwise unreadable."""
    try:
        table = _load(path)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return
    yield table
    imports = table.get("imports")
    for pattern in imports if isinstance(imports, list) else ():
        place = _under(root, os.path.join(os.path.dirname(path), str(pattern)))
        for each in sorted(glob(place)):
            try:
                yield _load(each)
            except PermissionError:
                raise
            except (OSError, ValueError):
                continue


def _sections(table: _Table) -> Iterator[_Table]:
    for path in _SECTIONS:
        found: object = table
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict):
            yield found


def _config_path(section: _Table) -> list[str]:
    folders = section.get("config_path")
    return [folder for folder in folders.split(":") if folder] if isinstance(folders, str) else []


def _endpoints(registry: str, root: str, sections: Sequence[tuple[str, _Table]]) -> Iterator[Mirrors]:
    """Yield the mirrors that are set in the config itself, which containerd 1 supports."""
    for path, section in sections:
        mirrors = section.get("mirrors")
        entry = mirrors.get(registry, mirrors.get("*")) if isinstance(mirrors, dict) else None
        urls = entry.get("endpoint") if isinstance(entry, dict) else None
        others = tuple(_others([str(url) for url in urls], registry)) if isinstance(urls, list) else ()
        if others:
            yield Mirrors(os.path.join(root, path), others)


def _under(root: str, path: str) -> str:
    """Return a path of the host below *root*; a path that is already below it is returned unchanged."""
    is_there = root == "/" or path.startswith(os.path.join(root, ""))
    return path if is_there else os.path.join(root, path.lstrip("/"))


def _load(path: str) -> _Table:
    import tomllib

    with open(path, "rb") as stream:
        return tomllib.load(stream)
