"""The kubelets and container runtimes that run on this machine, with their flags, read from ``/proc``."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.host_root import host_root, is_on_host, on_host
from keyferry._core.values import Value, field

CONFIG_FLAG = "--image-credential-provider-config"
BIN_DIR_FLAG = "--image-credential-provider-bin-dir"
KUBELET_ROOT = "/var/lib/kubelet"
# The folder of processes, for a container that mounts its host's in another place than /proc.
PROC_VARIABLE = "KEYFERRY_PROC"

# The flags that are read. k3s and RKE2 have the shared flags themselves, and the others as --kubelet-arg.
_SHARED_FLAGS = frozenset((CONFIG_FLAG, BIN_DIR_FLAG, "--container-runtime-endpoint"))
_FLAGS = _SHARED_FLAGS | {
    "--config",
    "--config-dir",
    "--feature-gates",
    "--hostname-override",
    "--image-service-endpoint",
    "--kubeconfig",
    "--root-dir",
}
# The name of the node, which k3s and RKE2 pass to their kubelet as --hostname-override.
_NODE_NAME_FLAG = "--node-name"
_EMBEDDED_FLAGS = _SHARED_FLAGS | {_NODE_NAME_FLAG}
# Programs that embed a kubelet, and the subcommands that run it; an empty tuple means every subcommand.
_EMBEDDING: Mapping[str, tuple[str, ...]] = {
    "hyperkube": ("kubelet",),
    "k3s": ("server", "agent"),
    "k3s-server": (),
    "k3s-agent": (),
    "kubelite": (),
    "rke2": ("server", "agent"),
}
# The inode of the initial PID namespace (PROC_PID_INIT_INO), a constant of Linux.
_FIRST_NAMESPACE = "pid:[4026531836]"
_MAX_BYTES = 1 << 21
# The container runtimes whose files name mirrors, and the short forms of their flags.
_RUNTIMES = ("containerd", "crio")
_SHORT_FLAGS = {"-c": "--config", "-a": "--address", "-d": "--config-dir"}
_RUNTIME_FLAGS = ("--config", "--address", "--config-dir", "--listen")


class NodeProcess(Value):
    """A process: *process* is its folder in ``/proc``; *users* are the owner and the real, effective and saved IDs."""

    pid: int
    program: str
    process: str
    users: frozenset[int]
    flags: Mapping[str, str] = field(repr=False)

    @property
    def is_trusted(self) -> bool:
        """Whether it belongs to root or to this user; any user can start a program of the same name."""
        return self.belongs_to({os.geteuid()})

    def belongs_to(self, users: set[int]) -> bool:
        """Return whether all its users are root or in *users*."""
        return self.users <= {0, *users}

    @property
    def started(self) -> float | None:
        """When it started, in seconds since the epoch, up to a second too early; None if that cannot be read."""
        # The folder may be a link to one of /proc.
        proc = os.path.dirname(os.path.realpath(self.process))
        try:
            # Field 22; the second one is the program's name in brackets, which may have any characters.
            ticks = int(_read_process_file(f"{self.process}/stat").rpartition(b")")[2].split()[19])
            lines = _read_process_file(f"{proc}/stat").splitlines()
            booted = next(int(line.split()[1]) for line in lines if line.startswith(b"btime "))
            return booted + ticks / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError, StopIteration):
            return None

    def inside(self, path: str) -> str:
        """Return a path of the process as seen from this one; their roots and working directories may differ."""
        if host_root():
            return path if path.startswith("/") else os.path.join(self._working_folder(), path)
        start, absolute = ("root", path) if path.startswith("/") else ("cwd", f"/{path}")
        seen = f"{self.process}/{start}{absolute}"
        # The plain path, if it is the same file or the other cannot be accessed.
        is_plain = not os.path.exists(seen) or (os.path.exists(path) and os.path.samefile(seen, path))
        return path if is_plain else seen

    def _working_folder(self) -> str:
        """Return its working directory, that of a system service if it cannot be read."""
        try:
            return os.readlink(f"{self.process}/cwd")
        except OSError:
            return "/"

    def read_environment(self) -> Mapping[str, str] | None:
        """Return the environment that it was started with, or None if it cannot be read."""
        try:
            raw = _read_process_file(f"{self.process}/environ")
        except OSError:
            return None
        pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0"))
        return {name: value for name, equals, value in pairs if name and equals}


class RuntimeProcess(NodeProcess):
    """A running container runtime."""

    def __str__(self) -> str:
        return f"{self.program}, process {self.pid}"


class Kubelet(NodeProcess):
    """A process that is a kubelet or embeds one."""

    def __str__(self) -> str:
        return f"the kubelet, process {self.pid}"

    @property
    def is_plain(self) -> bool:
        """Whether it is the kubelet itself, so that its command line has all of its flags."""
        return self.program == "kubelet"

    @property
    def node_name(self) -> str:
        """The name that it gives its node: the flag, else the host name, in lower case; empty if it is not known.

        The host name is that of this process unless the kubelet is known to be in another UTS namespace.
        """
        named = self.flags.get("--hostname-override") or self.flags.get(_NODE_NAME_FLAG)
        if not named and not self._has_other_host_name():
            named = os.uname().nodename
        return (named or "").strip().lower()

    def _has_other_host_name(self) -> bool:
        try:
            return os.readlink(f"{self.process}/ns/uts") != os.readlink("/proc/self/ns/uts")
        except OSError:
            return False


class Kubelets(Value):
    """All visible kubelets; *hidden* is the reason why there may be others, or empty if there are none."""

    found: tuple[Kubelet, ...] = ()
    hidden: str = ""
    # Whether a PID namespace hides other kubelets: only processes of the same namespace are visible.
    is_contained: bool = False
    # The container runtimes that run here, found in the same pass.
    runtimes: tuple[RuntimeProcess, ...] = ()

    @property
    def trusted(self) -> tuple[Kubelet, ...]:
        """The kubelets whose settings are used."""
        return tuple(kubelet for kubelet in self.found if kubelet.is_trusted)


def look_for_kubelets(proc: str | None = None) -> Kubelets:
    """Return the kubelets among all processes; kubelets come first, then programs that embed one."""
    folder = proc or os.environ.get(PROC_VARIABLE) or _usual_proc()
    processes = list(_processes(folder))
    kubelets = [each for each in processes if isinstance(each, Kubelet)]
    found = sorted(kubelets, key=lambda each: (each.program in _EMBEDDING, each.pid))
    runtimes = tuple(each for each in processes if isinstance(each, RuntimeProcess))
    hidden, is_contained = _what_hides(folder)
    return Kubelets(found=tuple(found), hidden=hidden, is_contained=is_contained, runtimes=runtimes)


def _usual_proc() -> str:
    """Return the host's folder of processes if it is mounted below the host root, else the one of this process."""
    return on_host("/proc") if host_root() and is_on_host("/proc/1/cmdline") else "/proc"


def parse_flags(argv: Sequence[str], *, is_embedded: bool = False) -> dict[str, str]:
    """Return the flags of a kubelet's command line that are used here, including ``--kubelet-arg`` of k3s and RKE2."""
    known = _EMBEDDED_FLAGS if is_embedded else _FLAGS
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--kubelet-arg":
            # As in k3s: with or without dashes, and always with a value.
            inner = (value if equals else next(words, "")).lstrip("-")
            name, _, value = f"--{inner}".partition("=")
            if name in _FLAGS:
                _set_flag(flags, name, value)
        elif name in known:
            _set_flag(flags, name, value if equals else next(words, ""))
    return flags


def _set_flag(flags: dict[str, str], name: str, value: str) -> None:
    """Set a flag; the last value counts, but feature gates accumulate."""
    before = flags.get(name, "") if name == "--feature-gates" else ""
    flags[name] = f"{before},{value}" if before else value


def _processes(proc: str) -> Iterator[NodeProcess]:
    """Yield the kubelets and the container runtimes."""
    for pid in _pids(proc):
        try:
            found = _process(pid, f"{proc}/{pid}")
        except OSError:
            continue  # the process has ended, or may not be read
        if found is not None and not _is_borrowed(found.process):
            yield found


def _process(pid: int, process: str) -> NodeProcess | None:
    argv = [os.fsdecode(word) for word in _read_process_file(f"{process}/cmdline").split(b"\0") if word]
    program = _program(argv)
    if program:
        flags = parse_flags(argv[1:], is_embedded=program in _EMBEDDING and program != "hyperkube")
        return Kubelet(pid=pid, program=program, process=process, users=_users(process), flags=flags)
    program = _runtime_program(argv)
    if program:
        return RuntimeProcess(
            pid=pid,
            program=program,
            process=process,
            users=_users(process),
            flags=_parse_runtime_flags(argv[1:]),
        )
    return None


def _program(argv: Sequence[str]) -> str:
    """Return the name of a program that is or embeds a kubelet, or an empty string for other programs."""
    if not argv:
        return ""
    # k3s and RKE2 set their title to "k3s server".
    name, _, title = os.path.basename(argv[0]).partition(" ")
    if name == "kubelet":
        return name
    subcommands = _EMBEDDING.get(name)
    if subcommands is None:
        return ""
    words = [*title.split(" "), *argv[1:2]]
    return name if not subcommands or any(word in subcommands for word in words) else ""


def _is_borrowed(process: str) -> bool:
    """Return whether it is a set-uid program: its user chooses name and flags, and it belongs to root."""
    try:
        return bool(os.stat(f"{process}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID))
    except OSError:
        return False  # it cannot be read; its users decide


def _users(process: str) -> frozenset[int]:
    """Return the owner and the real, effective and saved user IDs."""
    users = {os.stat(process).st_uid}
    try:
        for line in _read_process_file(f"{process}/status").splitlines():
            if line.startswith(b"Uid:"):
                users.update(map(int, line.split()[1:4]))
    except (OSError, ValueError):
        pass
    return frozenset(users)


def _what_hides(proc: str) -> tuple[str, bool]:
    """Return why some kubelets may not be visible, and whether a PID namespace hides them."""
    if not sys.platform.startswith("linux"):
        return "", False  # a kubelet there uses no unix socket and no records
    try:
        _read_process_file(f"{proc}/1/cmdline")
    except OSError as error:
        return f"processes of other users cannot be seen in {proc}: {error.strerror}", False
    namespace = _namespace(proc)
    if namespace not in ("", _FIRST_NAMESPACE):
        return "this is a container that does not see the processes of its host (hostPID)", True
    return "", False


def _namespace(proc: str) -> str:
    """Return the PID namespace of *proc*, or an empty string if it cannot be read."""
    for which in ("1", "self"):
        try:
            return os.readlink(f"{proc}/{which}/ns/pid")
        except OSError:
            continue
    return ""


def _pids(proc: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def _runtime_program(argv: Sequence[str]) -> str:
    """Return the name of a container runtime, or an empty string for other programs."""
    name = os.path.basename(argv[0]) if argv else ""
    return name if name in _RUNTIMES else ""


def _parse_runtime_flags(argv: Sequence[str]) -> dict[str, str]:
    """Return the flags of a container runtime's command line that are used here."""
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        name = _SHORT_FLAGS.get(name, name)
        if name in _RUNTIME_FLAGS:
            flags[name] = value if equals else next(words, "")
    return flags


def _read_process_file(path: str) -> bytes:
    """Return the content of a file in ``/proc``, up to a limit."""
    with open(path, "rb") as stream:
        return stream.read(_MAX_BYTES)
