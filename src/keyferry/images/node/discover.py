"""Discovery of the node's provider config and plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.host_root import host_root, is_on_host, on_host
from keyferry._core.log import log_debug
from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG, Kubelet
from keyferry.images.node.settings import Node

# The root of the node's file system, for a container that mounts it in another place than /.
ROOT_VARIABLE = "KEYFERRY_HOST_ROOT"
_ADVICE = f"give {CONFIG_FLAG} or KEYFERRY_CONFIG"
_BIN_DIR_ADVICE = f"give {BIN_DIR_FLAG} or KEYFERRY_BIN_DIR"


class WellKnownConfig(Value):
    """A location where a Kubernetes distribution puts its provider config."""

    distribution: str
    config: str
    bin_dir: str


WELL_KNOWN_CONFIGS = (
    WellKnownConfig(
        distribution="EKS",
        config="/etc/eks/image-credential-provider/config.json",
        bin_dir="/etc/eks/image-credential-provider",
    ),
    WellKnownConfig(
        distribution="AKS",
        config="/var/lib/kubelet/credential-provider-config.yaml",
        bin_dir="/var/lib/kubelet/credential-provider",
    ),
    WellKnownConfig(
        distribution="GKE", config="/etc/srv/kubernetes/cri_auth_config.yaml", bin_dir="/home/kubernetes/bin"
    ),
    WellKnownConfig(
        distribution="k3s or RKE2",
        config="/var/lib/rancher/credentialprovider/config.yaml",
        bin_dir="/var/lib/rancher/credentialprovider/bin",
    ),
    WellKnownConfig(
        distribution="Bottlerocket",
        config="/etc/kubernetes/kubelet/credential-provider-config.yaml",
        bin_dir="/usr/libexec/kubernetes/kubelet/plugins",
    ),
    WellKnownConfig(
        distribution="Talos",
        config="/etc/kubernetes/kubelet-credentialproviderconfig.yaml",
        bin_dir="/usr/local/lib/kubelet/credentialproviders",
    ),
)


class Discovery(Value):
    """The config and bin dir to use, and where each was found; a path that was not found is empty.

    *kubelet* is the running kubelet, if it was searched and found. *notes* name its files that cannot be read, and
    fields of them that it ignores.
    """

    config: str = ""
    bin_dir: str = ""
    config_from: str = ""
    bin_dir_from: str = ""
    kubelet: Kubelet | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"config {self.config} ({self.config_from}), bin dir {self.bin_dir} ({self.bin_dir_from})"


def discover(
    config: str | None = None,
    bin_dir: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    node: Node | None = None,
    root: str | None = None,
    needs_config: bool = True,
    needs_bin_dir: bool = True,
    advice: str = _ADVICE,
    bin_dir_advice: str = _BIN_DIR_ADVICE,
) -> Discovery:
    """Return the given config and bin dir, else those in the environment, else those that this node uses.

    *node* has the running kubelets; *root* is the root of the file system, by default KEYFERRY_HOST_ROOT or ``/``.
    They are used only if config and bin dir are not set otherwise. For a node elsewhere only what is given counts, not
    the environment and the files of this machine. Raise EnvironmentProblem if a path is needed and not
    found, with *advice* on how to set a config, or *bin_dir_advice*; a path that is not needed and not found is empty.
    """
    machine = Node() if node is None else node
    variables = os.environ if environ is None else environ
    if machine.elsewhere:
        variables = {}
    given = (
        Discovery(config=config or "", config_from="given"),
        Discovery(bin_dir=bin_dir or "", bin_dir_from="given"),
        Discovery(config=variables.get("KEYFERRY_CONFIG", ""), config_from="KEYFERRY_CONFIG"),
        Discovery(bin_dir=variables.get("KEYFERRY_BIN_DIR", ""), bin_dir_from="KEYFERRY_BIN_DIR"),
    )
    candidates = _node_candidates(machine, root or usual_root(variables))
    found = _choose(given, iter(()) if machine.elsewhere else candidates)
    if (needs_config and not found.config) or (needs_bin_dir and found.config and not found.bin_dir):
        raise _not_found(found, bin_dir_advice if found.config else advice)
    log_debug("images", "%s", found if found.config else "no provider config is found")
    return found


def usual_root(environ: Mapping[str, str]) -> str:
    """Return the folder that stands for ``/`` in the usual places: ``/`` itself below a host root."""
    return "/" if host_root() else environ.get(ROOT_VARIABLE) or "/"


def _choose(given: Sequence[Discovery], more: Iterator[Discovery]) -> Discovery:
    """Return the first config and the first bin dir for it; stop reading candidates once both are found."""
    seen = [each for each in given if each.config or each.bin_dir]
    while True:
        named = next((each for each in seen if each.config), None)
        plugins = _matching_bin_dir(seen, named)
        if named is not None and plugins is not None:
            break
        following = next(more, None)
        if following is None:
            break
        seen.append(following)
    named, plugins = named or Discovery(), plugins or Discovery()
    kubelet = next((each.kubelet for each in (named, plugins, *seen) if each.kubelet is not None), None)
    notes = tuple(note for each in seen for note in each.notes)
    return Discovery(
        config=named.config,
        bin_dir=plugins.bin_dir,
        config_from=named.config_from,
        bin_dir_from=plugins.bin_dir_from,
        kubelet=kubelet,
        notes=notes,
    )


def _not_found(found: Discovery, advice: str) -> EnvironmentProblem:
    unread = "".join(f"; {note}" for note in found.notes)
    if found.config and _is_absent(found.config):
        source = "" if found.config_from == "given" else f" ({found.config_from})"
        return EnvironmentProblem(f"the config {found.config}{source} does not exist{unread}")
    if found.config:
        return EnvironmentProblem(f"no bin dir found for the config {found.config}: {advice}{unread}")
    return EnvironmentProblem(
        f"no provider config found: {advice}; no running kubelet names one, "
        f"and there is none in the usual places of {', '.join(known.distribution for known in WELL_KNOWN_CONFIGS)}"
        + unread
    )


def _is_absent(path: str) -> bool:
    """Return whether there is no such file; False if that cannot be told."""
    try:
        os.stat(on_host(path))
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _matching_bin_dir(seen: Sequence[Discovery], named: Discovery | None) -> Discovery | None:
    """Return the first bin dir that is set alone or together with the chosen config, not with another config."""
    for each in seen:
        if each.bin_dir and (not each.config or (named is not None and each.config == named.config)):
            return each
    return None


def _node_candidates(node: Node, root: str) -> Iterator[Discovery]:
    """Yield the configs and bin dirs that this node may use, the most reliable first.

    A kubelet that runs has the config that its flags name, or none; what embeds one may have others.
    """
    for kubelet in node.kubelets.trusted:
        yield _kubelet_candidate(node, kubelet)
    if any(kubelet.is_plain for kubelet in node.kubelets.trusted):
        return
    for known in WELL_KNOWN_CONFIGS:
        path = os.path.join(root, known.config.lstrip("/"))
        if is_on_host(path):
            who = f"the usual place of {known.distribution}"
            yield Discovery(
                config=path,
                bin_dir=os.path.join(root, known.bin_dir.lstrip("/")),
                config_from=who,
                bin_dir_from=who,
            )


def _kubelet_candidate(node: Node, kubelet: Kubelet) -> Discovery:
    """Return the config and bin dir of a kubelet; its files are read only if its flags do not set both."""
    config, bin_dir = kubelet.flags.get(CONFIG_FLAG, ""), kubelet.flags.get(BIN_DIR_FLAG, "")
    who = f"flags of {kubelet}"
    if config and bin_dir:
        return Discovery(config=config, bin_dir=bin_dir, config_from=who, bin_dir_from=who, kubelet=kubelet)
    settings = node.settings_of(kubelet)
    named, plugins = settings.provider_config, settings.bin_dir
    return Discovery(
        config="" if named is None else named.value,
        bin_dir="" if plugins is None else plugins.value,
        config_from="" if named is None else named.origin,
        bin_dir_from="" if plugins is None else plugins.origin,
        kubelet=kubelet,
        notes=(*settings.notes, *settings.ignored),
    )
