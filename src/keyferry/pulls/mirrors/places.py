"""Where the files of a container runtime are: named by flags, by the running runtime, or in their usual places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from keyferry._core.values import Value
from keyferry.images.node.kubelet import RuntimeProcess
from keyferry.pulls.mirrors.endpoints import RuntimeKind

__all__ = ["MirrorPlaces", "running_places", "runtime_of", "runtime_process", "stale_sources"]

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
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _serves(process: RuntimeProcess, kind: RuntimeKind | None, endpoint: str) -> bool:
    address = process.flags.get("--address", "")
    is_there = not address or not endpoint or endpoint.removeprefix("unix://") == address
    return _PROGRAMS[process.program] is kind and is_there


def _drop_ins(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError:
        names = [""]  # the folder itself: reading it reports the problem
    yield from (os.path.join(folder, name) for name in names if not name or name.endswith(".conf"))
