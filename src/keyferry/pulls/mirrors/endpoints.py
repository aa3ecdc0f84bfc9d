"""The places that a container runtime asks for an image, as values, and where the files are that name them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.host_root import on_host
from keyferry._core.values import Value
from keyferry.images.node.kubelet import RuntimeProcess
from keyferry.pulls.mirrors.files import HostTrust

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
_REGISTRIES = "etc/containers/registries.conf"
# The folders of certificates that CRI-O reads, by host, as root; the first that exists counts.
_CERTIFICATES = ("root/.config/containers/certs.d", "etc/containers/certs.d", "etc/docker/certs.d")
# The files that k3s and RKE2 write their folders from when they start.
_SOURCES = {
    "etc/rancher/k3s/registries.yaml": _HOST_FOLDERS[1],
    "etc/rancher/rke2/registries.yaml": _HOST_FOLDERS[2],
}


class RuntimeKind(StrEnum):
    """The container runtimes whose files are read."""

    CONTAINERD = "containerd"
    CRIO = "CRI-O"


class CredentialOffer(StrEnum):
    """Whether a host that asks for a credential gets the one that the kubelet passes to the runtime."""

    OFFERED = "offered"
    WITHHELD = "withheld"
    UNKNOWN = "unknown"


class Endpoint(Value):
    """A place that the runtime asks: its *url* as it is set, its *host* with the port, and where requests start.

    *api* is that start, usually the URL and ``/v2``. *repository* is the image's repository there, empty if it is not
    known. *is_registry* tells whether the host is the image's own registry. *is_insecure* means plain HTTP, or any
    certificate. With *has_login*, the runtime has a credential of its own for the host: a header that it sends first,
    or one for pulls without a credential.

    *trust* is how the runtime connects to this host. If *falls_back*, it tries HTTPS and then plain HTTP. *resolves*
    tells whether it asks this host for the manifest of such an image. *namespace* is the registry's name, which
    containerd tells a host that is not the registry.
    """

    url: str
    host: str
    api: str
    repository: str = ""
    is_registry: bool = False
    offer: CredentialOffer = CredentialOffer.OFFERED
    is_insecure: bool = False
    has_login: bool = False
    trust: HostTrust = HostTrust()
    falls_back: bool = False
    resolves: bool = True
    namespace: str = ""


class Mirrors(Value):
    """Where a runtime goes for an image, by *file*, or the *problem* that kept the file from being read.

    *doubt* tells why the runtime may not read the file. A blocked image is not pulled at all; *blocked_line* is the
    number of the line that blocks it, 0 if it is not known.
    """

    runtime: RuntimeKind
    file: str
    endpoints: tuple[Endpoint, ...] = ()
    problem: str = ""
    doubt: str = ""
    is_blocked: bool = False
    blocked_line: int = 0

    @property
    def others(self) -> tuple[Endpoint, ...]:
        """The places that are not the image's own registry."""
        return tuple(each for each in self.endpoints if not each.is_registry)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The URLs of these places."""
        return tuple(each.url for each in self.others)

    @property
    def is_login_only(self) -> bool:
        """Whether the file has only a login for the registry itself."""
        return not self.others and any(each.has_login for each in self.endpoints)

    def asks_registry(self, repository: str) -> bool:
        """Return whether the runtime asks the image's own registry for *repository*, as far as the file tells."""
        if not self.endpoints:
            return True
        own = (each for each in self.endpoints if each.is_registry)
        return any(each.repository == repository and each.api.endswith(f"//{each.host}/v2") for each in own)

    def is_registry_alone(self, repository: str) -> bool:
        """Return whether the file only tells how to connect to the image's own registry for *repository*."""
        has_login = any(each.has_login for each in self.endpoints)
        is_other = self.problem or self.is_blocked or self.others or has_login
        return not is_other and self.asks_registry(repository)

    def __str__(self) -> str:
        if self.problem:
            return f"{self.file} may name a mirror, but {self.problem}"
        if self.is_blocked:
            return f"{self.runtime} does not pull it: {self.file} blocks it"
        names = ", then ".join(each.url for each in self.endpoints)
        doubt = f"; {self.doubt}" if self.doubt else ""
        return f"{self.runtime} asks {names} ({self.file}{doubt})"


def is_registry_host(host: str, registry: str) -> bool:
    """Return whether *host* is the server of *registry*."""
    own = (registry, f"{registry}:443", f"{registry}:80")
    return host in own or (registry == HUB and host == REGISTRY_HOST)


_PROGRAMS = {"containerd": RuntimeKind.CONTAINERD, "crio": RuntimeKind.CRIO}


class MirrorPlaces(Value):
    """The files that name mirrors: the given ones alone, or those below *root*.

    *runtime* is the container runtime, if it is known: only its files count then. *hosts_dir* is containerd's folder
    of registry hosts, *containerd_config* its config, *registries_conf* the file of CRI-O.
    """

    root: str = "/"
    runtime: RuntimeKind | None = None
    hosts_dir: str = ""
    containerd_config: str = ""
    registries_conf: str = ""

    @property
    def containerd_configs(self) -> tuple[str, ...]:
        """The config of containerd, or all its usual places."""
        if self.containerd_config:
            return (self.containerd_config,)
        return tuple(os.path.join(self.root, path) for path in _CONFIGS)

    @property
    def host_folders(self) -> tuple[str, ...]:
        """The folders of registry hosts that count without a config."""
        return tuple(os.path.join(self.root, path) for path in _HOST_FOLDERS)

    @property
    def registries_files(self) -> tuple[str, ...]:
        """The files of CRI-O, in the order in which later ones override earlier ones."""
        main = self.registries_conf or os.path.join(self.root, _REGISTRIES)
        return (main, *_drop_ins(f"{main}.d"))

    @property
    def certificate_folders(self) -> tuple[str, ...]:
        """The folders of certificates by host that CRI-O reads; beside a file that was named, the one that is there."""
        own = os.path.join(self.root, _REGISTRIES)
        if self.registries_conf and os.path.abspath(self.registries_conf) != os.path.abspath(own):
            return (os.path.join(os.path.dirname(self.registries_conf), "certs.d"),)
        return tuple(os.path.join(self.root, path) for path in _CERTIFICATES)

    def reads(self, runtime: RuntimeKind) -> bool:
        """Return whether the files of *runtime* count."""
        if self.hosts_dir or self.registries_conf:
            return bool(self.hosts_dir if runtime is RuntimeKind.CONTAINERD else self.registries_conf)
        return self.runtime in (None, runtime)


def running_places(
    runtimes: Sequence[RuntimeProcess], endpoint: str = "", *, root: str = "/"
) -> MirrorPlaces:
    """Return the places of the runtime at the kubelet's *endpoint*, or of the one that runs here."""
    kind = runtime_of(endpoint, runtimes)
    process = runtime_process(runtimes, endpoint)
    config = "" if process is None else process.flags.get("--config", "")
    if process is None or not config or kind is not RuntimeKind.CONTAINERD:
        return MirrorPlaces(root=root, runtime=kind)
    return MirrorPlaces(root=root, runtime=kind, containerd_config=process.inside(config))


def runtime_process(runtimes: Sequence[RuntimeProcess], endpoint: str = "") -> RuntimeProcess | None:
    """Return the process at *endpoint*; a process that belongs to another user than root or this one is ignored."""
    kind = runtime_of(endpoint, runtimes)
    return next((each for each in runtimes if each.is_trusted and _serves(each, kind, endpoint)), None)


def runtime_of(endpoint: str, runtimes: Sequence[RuntimeProcess] = ()) -> RuntimeKind | None:
    """Return the runtime whose name is in the socket's path, else the only one that runs, else None."""
    name = endpoint.rpartition("/")[2]
    for program, kind in _PROGRAMS.items():
        if name.startswith(program):
            return kind
    running = {_PROGRAMS[each.program] for each in runtimes if each.is_trusted}
    return running.pop() if len(running) == 1 and not endpoint else None


def stale_sources(root: str) -> tuple[tuple[str, str], ...]:
    """Return the files of k3s and RKE2 that are newer than the folder that is written from them, with that folder."""
    pairs = ((os.path.join(root, file), os.path.join(root, folder)) for file, folder in _SOURCES.items())
    return tuple((file, folder) for file, folder in pairs if _changed(file) > _changed(folder))


def _changed(path: str) -> float:
    """Return when a file was last changed, or 0 if it cannot be told."""
    try:
        return os.stat(on_host(path)).st_mtime
    except OSError:
        return 0.0


def _serves(process: RuntimeProcess, kind: RuntimeKind | None, endpoint: str) -> bool:
    address = process.flags.get("--address", "")
    is_there = not address or not endpoint or endpoint.removeprefix("unix://") == address
    return _PROGRAMS[process.program] is kind and is_there


def _drop_ins(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(on_host(folder)))
    except FileNotFoundError:
        return
    except OSError:
        names = [""]  # the folder itself: reading it reports the problem
    yield from (os.path.join(folder, name) for name in names if not name or name.endswith(".conf"))
