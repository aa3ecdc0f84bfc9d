"""The kubelets that run on this machine: their processes, flags and environments, as ``/proc`` has them."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.values import Value, field

__all__ = [
    "BIN_DIR_FLAG",
    "CONFIG_FLAG",
    "KUBELET_ROOT",
    "PROC_VARIABLE",
    "Kubelet",
    "Kubelets",
    "look_for_kubelets",
    "parse_flags",
]

CONFIG_FLAG = "--image-credential-provider-config"
BIN_DIR_FLAG = "--image-credential-provider-bin-dir"
KUBELET_ROOT = "/var/lib/kubelet"
# Where processes are looked for if not in /proc: for a container that has its host's in another place.
PROC_VARIABLE = "KEYFERRY_PROC"

# Flags that settle something here. Those that k3s and RKE2 take themselves; all others they take as --kubelet-arg.
_SHARED_FLAGS = frozenset((CONFIG_FLAG, BIN_DIR_FLAG, "--container-runtime-endpoint"))
_FLAGS = _SHARED_FLAGS | {
    "--config",
    "--config-dir",
    "--feature-gates",
    "--image-service-endpoint",
    "--kubeconfig",
    "--root-dir",
}
# Programs that run a kubelet inside themselves, and the subcommands that do so; without any, all do.
_EMBEDDING: Mapping[str, tuple[str, ...]] = {
    "hyperkube": ("kubelet",),
    "k3s": ("server", "agent"),
    "k3s-server": (),
    "k3s-agent": (),
    "kubelite": (),
    "rke2": ("server", "agent"),
}
# The number of the first namespace of processes (PROC_PID_INIT_INO): a constant of Linux.
_FIRST_NAMESPACE = "pid:[4026531836]"
_MOST_BYTES = 1 << 21


class Kubelet(Value):
    """A process that is a kubelet, or runs one inside itself.

    *process* is its folder in ``/proc``, *users* are all users it acts or has acted as.
    """

    pid: int
    program: str
    process: str
    users: frozenset[int]
    flags: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return f"the kubelet, process {self.pid}"

    @property
    def is_trusted(self) -> bool:
        """Tell whether it is root's or our own: any user can call a program "kubelet" and name a bin dir."""
        return self.belongs_to({os.geteuid()})

    def belongs_to(self, users: set[int]) -> bool:
        """Tell whether it has never been anybody's but root's and these users'."""
        return self.users <= {0, *users}

    def inside(self, path: str) -> str:
        """A path of the kubelet's, from here: it may have another root, or a folder of its own to start from."""
        start, absolute = ("root", path) if path.startswith("/") else ("cwd", f"/{path}")
        seen = f"{self.process}/{start}{absolute}"
        # By its plain name wherever that means the same, or nothing else can be had.
        is_plain = not os.path.exists(seen) or (os.path.exists(path) and os.path.samefile(seen, path))
        return path if is_plain else seen

    def read_environment(self) -> Mapping[str, str] | None:
        """The environment it was started with; None if it may not be read."""
        try:
            raw = _read(f"{self.process}/environ")
        except OSError:
            return None
        pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0"))
        return {name: value for name, equals, value in pairs if name and equals}


class Kubelets(Value):
    """Every kubelet that is seen; *hidden* says why there may be others, and is empty if there are not."""

    found: tuple[Kubelet, ...] = ()
    hidden: str = ""
    # Hidden by a namespace: then whoever shares ours is seen, and only they.
    is_contained: bool = False

    @property
    def trusted(self) -> tuple[Kubelet, ...]:
        """Those whose settings count."""
        return tuple(kubelet for kubelet in self.found if kubelet.is_trusted)


def look_for_kubelets(proc: str | None = None) -> Kubelets:
    """Look at every process once; kubelets proper come first, then programs that run one inside themselves."""
    folder = proc or os.environ.get(PROC_VARIABLE) or "/proc"
    found = sorted(_kubelets(folder), key=lambda each: (each.program in _EMBEDDING, each.pid))
    hidden, is_contained = _what_hides(folder)
    return Kubelets(tuple(found), hidden, is_contained)


def parse_flags(argv: Sequence[str], *, is_embedded: bool = False) -> dict[str, str]:
    """The flags of a kubelet's command line that matter here, and those in the ``--kubelet-arg`` of k3s and RKE2."""
    known = _SHARED_FLAGS if is_embedded else _FLAGS
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--kubelet-arg":
            # As k3s reads them: with or without dashes, and always with their value.
            inner = (value if equals else next(words, "")).lstrip("-")
            name, _, value = f"--{inner}".partition("=")
            if name in _FLAGS:
                _set_flag(flags, name, value)
        elif name in known:
            _set_flag(flags, name, value if equals else next(words, ""))
    return flags


def _set_flag(flags: dict[str, str], name: str, value: str) -> None:
    """The last one counts; gates add up."""
    before = flags.get(name, "") if name == "--feature-gates" else ""
    flags[name] = f"{before},{value}" if before else value


def _kubelets(proc: str) -> Iterator[Kubelet]:
    for pid in _pids(proc):
        process = f"{proc}/{pid}"
        try:
            argv = [os.fsdecode(word) for word in _read(f"{process}/cmdline").split(b"\0") if word]
            program = _program(argv)
            if program and not _is_borrowed(process):
                flags = parse_flags(argv[1:], is_embedded=program in _EMBEDDING and program != "hyperkube")
                yield Kubelet(pid, program, process, _users(process), flags)
        except OSError:
            pass  # a process that ended meanwhile, or that may not be looked at


def _program(argv: Sequence[str]) -> str:
    """Which program that runs a kubelet it is; empty for all others."""
    if not argv:
        return ""
    # k3s and RKE2 call themselves "k3s server".
    name, _, title = os.path.basename(argv[0]).partition(" ")
    if name == "kubelet":
        return name
    subcommands = _EMBEDDING.get(name)
    if subcommands is None:
        return ""
    words = [*title.split(" "), *argv[1:2]]
    return name if not subcommands or any(word in subcommands for word in words) else ""


def _is_borrowed(process: str) -> bool:
    """Tell whether it is a set-uid program: whoever starts one chooses its name and flags, and it is root's."""
    try:
        return bool(os.stat(f"{process}/exe").st_mode & (stat.S_ISUID | stat.S_ISGID))
    except OSError:
        return False  # not ours to look at; then its users tell


def _users(process: str) -> frozenset[int]:
    """The owner, and its real, effective and saved users."""
    users = {os.stat(process).st_uid}
    try:
        for line in _read(f"{process}/status").splitlines():
            if line.startswith(b"Uid:"):
                users.update(map(int, line.split()[1:4]))
    except (OSError, ValueError):
        pass
    return frozenset(users)


def _what_hides(proc: str) -> tuple[str, bool]:
    """Why kubelets may run that are not seen, and whether a namespace is what hides them."""
    if not sys.platform.startswith("linux"):
        return "", False  # no kubelet uses a unix socket or records there
    try:
        _read(f"{proc}/1/cmdline")
    except OSError as error:
        return f"the processes of others cannot be seen in {proc}: {error.strerror}", False
    namespace = _namespace(proc)
    if namespace not in ("", _FIRST_NAMESPACE):
        return "this is a container that does not see the processes of its host (hostPID)", True
    return "", False


def _namespace(proc: str) -> str:
    """Whose processes are in *proc*; empty where there are no namespaces."""
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


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(_MOST_BYTES)
