"""Where the node keeps its provider config and plugins, if nobody says."""

import os
from collections.abc import Iterator, Mapping, Sequence

from keyferry._values import Value
from keyferry.errors import EnvironmentProblem

CONFIG_FLAG = "--image-credential-provider-config"
BIN_DIR_FLAG = "--image-credential-provider-bin-dir"

# Programs that are a kubelet, or run one inside themselves and take its flags as --kubelet-arg.
_KUBELETS = ("kubelet", "hyperkube", "k3s", "k3s-server", "k3s-agent", "rke2")


class Place(Value):
    """A known home of provider configs."""

    who: str
    config: str
    bin_dir: str


WELL_KNOWN = (
    Place("EKS", "/etc/eks/image-credential-provider/config.json", "/etc/eks/image-credential-provider"),
    Place("AKS", "/var/lib/kubelet/credential-provider-config.yaml", "/var/lib/kubelet/credential-provider"),
    Place("GKE", "/etc/srv/kubernetes/cri_auth_config.yaml", "/home/kubernetes/bin"),
    Place(
        "k3s or RKE2",
        "/var/lib/rancher/credentialprovider/config.yaml",
        "/var/lib/rancher/credentialprovider/bin",
    ),
    Place(
        "Bottlerocket",
        "/etc/kubernetes/kubelet/credential-provider-config.yaml",
        "/usr/libexec/kubernetes/kubelet/plugins",
    ),
    Place("Talos", "/etc/kubernetes/credentialprovider.yaml", "/usr/local/lib/kubelet/credentialproviders"),
)


class Discovery(Value):
    """The config and bin dir to use, and who says so."""

    config: str
    bin_dir: str
    config_from: str
    bin_dir_from: str

    def __str__(self) -> str:
        return f"config {self.config} ({self.config_from}), bin dir {self.bin_dir} ({self.bin_dir_from})"


def discover(
    config: str | None = None,
    bin_dir: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    proc: str = "/proc",
    root: str = "/",
) -> Discovery:
    """What was given, else what the environment names, else what this node uses.

    *proc* and *root* are where processes and files are looked for. Raises EnvironmentProblem if nothing is found.
    """
    candidates = list(_candidates(config, bin_dir, os.environ if environ is None else environ, proc, root))
    chosen_config = next(((path, who) for path, _, who in candidates if path), None)
    chosen_bin = _matching_bin_dir(candidates, chosen_config)
    if chosen_config is None:
        raise EnvironmentProblem(
            f"no provider config found: give {CONFIG_FLAG} or KEYFERRY_CONFIG; no running kubelet names one, "
            f"and there is none in the usual places of {', '.join(place.who for place in WELL_KNOWN)}"
        )
    if chosen_bin is None:
        raise EnvironmentProblem(
            f"the config is {chosen_config[0]}, but where are its plugins? give {BIN_DIR_FLAG} or KEYFERRY_BIN_DIR"
        )
    return Discovery(chosen_config[0], chosen_bin[0], chosen_config[1], chosen_bin[1])


def _matching_bin_dir(
    candidates: Sequence[tuple[str, str, str]], chosen: tuple[str, str] | None
) -> tuple[str, str] | None:
    """The first bin dir that is set by itself or belongs to the chosen config, never one of another config."""
    for path, folder, who in candidates:
        if folder and (not path or (chosen is not None and path == chosen[0])):
            return folder, who
    return None


def _candidates(
    config: str | None, bin_dir: str | None, environ: Mapping[str, str], proc: str, root: str
) -> Iterator[tuple[str, str, str]]:
    """Config, bin dir and who names them, best first; either may be empty."""
    yield config or "", "", "given"
    yield "", bin_dir or "", "given"
    yield environ.get("KEYFERRY_CONFIG", ""), "", "KEYFERRY_CONFIG"
    yield "", environ.get("KEYFERRY_BIN_DIR", ""), "KEYFERRY_BIN_DIR"
    for pid, flags in _kubelet_flags(proc):
        yield flags.get(CONFIG_FLAG, ""), flags.get(BIN_DIR_FLAG, ""), f"flags of the kubelet, process {pid}"
    for place in WELL_KNOWN:
        path = os.path.join(root, place.config.lstrip("/"))
        if os.path.exists(path):
            yield path, os.path.join(root, place.bin_dir.lstrip("/")), f"the usual place of {place.who}"


def _kubelet_flags(proc: str) -> Iterator[tuple[int, dict[str, str]]]:
    for pid in sorted(int(name) for name in _listing(proc) if name.isdigit()):
        argv = _command_line(f"{proc}/{pid}/cmdline")
        if argv and os.path.basename(argv[0]).split(" ")[0] in _KUBELETS and _is_trusted(f"{proc}/{pid}"):
            flags = parse_flags(argv[1:])
            if flags:
                yield pid, flags


def _is_trusted(process: str) -> bool:
    """Tell whether a process is root's or our own: any user can call a program "kubelet" and name a bin dir."""
    try:
        return os.stat(process).st_uid in (0, os.geteuid())
    except OSError:
        return False


def parse_flags(argv: Sequence[str]) -> dict[str, str]:
    """The two flags in a kubelet's command line, or in the ``--kubelet-arg`` of k3s and RKE2."""
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--kubelet-arg":
            name, equals, value = ("--" + (value if equals else next(words, ""))).partition("=")
        if name in (CONFIG_FLAG, BIN_DIR_FLAG):
            flags[name] = value if equals else next(words, "")
    return flags


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _command_line(path: str) -> list[str]:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(1 << 20)
    except OSError:
        return []
    return [os.fsdecode(word) for word in raw.split(b"\0") if word]
