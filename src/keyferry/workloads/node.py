"""The pod's node: whether it is this machine, and what of this machine then counts as the node's.

That is the provider config, the docker config and the environment of plugins.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping

from keyferry._core.host_root import host_root, host_root_notes, is_on_host, on_host
from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.values import Value, field
from keyferry.errors import EnvironmentProblem
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import KUBELET_ROOT, Kubelet
from keyferry.images.node.settings import Node, node_config_candidates
from keyferry.workloads.request import Request

__all__ = [
    "NodeDockerConfig",
    "PluginEnvironment",
    "choose_node",
    "find_docker_config",
    "machine_notes",
    "missing_node",
    "no_config_note",
    "plugin_environment",
]

_AUTO = "auto"
_NO_KUBELET = "no kubelet runs on this machine"
_SELF, _KUBELET = "self", "kubelet"
# Variables that an image sets for its own programs, and not for those of the node.
_OF_AN_IMAGE = ("KEYFERRY_", "LD_", "PYTHON", "SSL_CERT_DIR", "SSL_CERT_FILE")
# What systemd gives to services.
_SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def choose_node(request: Request, node_name: str | None) -> Node:
    """Return this machine as a node, or a node elsewhere if the pod's node, *node_name*, is not this machine.

    Without a pod, *node_name* is None and this machine counts. A pod that is on no node counts as one of this machine
    if a kubelet runs here.
    """
    if request.node_access.is_asked:
        return _asked_node(request, node_name)
    node = Node() if request.node is None else request.node
    if _is_said(request, node) or node_name is None or node.elsewhere:
        return node
    if not node_name:
        # With both given, nothing of this machine is searched.
        if request.has_node_files or node.kubelet is not None:
            return node
        return Node(elsewhere=f"the pod is on no node yet, and {_NO_KUBELET}")
    names = [kubelet.node_name for kubelet in node.kubelets.trusted]
    if node_name in names:
        return node
    return Node(elsewhere=f"the pod is on node {node_name!r}, and {_describe(node, names)}")


def _asked_node(request: Request, node_name: str | None) -> Node:
    """Return the node of the cluster that is asked, never this machine, whose kubelet may have the same name."""
    name = request.on_node or node_name
    if not name:
        why = "the pod is on no node yet" if node_name is not None else "an image alone is on no node"
        raise EnvironmentProblem(f"--on-node: {why}; name the node to ask with --node NAME")
    if node_name and name != node_name:
        raise EnvironmentProblem(
            f"--node: the pod is on node {node_name!r}, not on {name!r}; leave out --node"
        )
    return Node(elsewhere=f"node {name!r} gave no answer")


def _is_said(request: Request, node: Node) -> bool:
    """Return whether the request says that the files found are the node's.

    ``--here`` says so; a host root does, too, unless a kubelet is seen, which has a name to compare, or the node is
    known to be elsewhere.
    """
    return request.here or (bool(host_root()) and node.kubelet is None and not node.elsewhere)


def _describe(node: Node, names: list[str]) -> str:
    known = [name for name in names if name]
    if known:
        return f"this machine is node {known[0]!r}"
    if names:
        return "the name of this machine's node is not known"
    hidden = node.kubelets.hidden
    return f"no kubelet can be seen on this machine: {hidden}" if hidden else _NO_KUBELET


def missing_node(request: Request, node: Node, found: Discovery) -> tuple[MissingInput, ...]:
    """Return the node as a missing input if its provider config is not known, else its docker config if that is not."""
    if found.config and node.elsewhere and request.docker_config is None:
        return (MissingInput(input=LookupInput.DOCKER_CONFIG, instead=node.elsewhere),)
    if found.config or _is_said(request, node) or (node.kubelet is not None and not node.elsewhere):
        return ()
    return (MissingInput(input=LookupInput.NODE, instead=node.elsewhere or _NO_KUBELET),)


def machine_notes(request: Request, node: Node, found: Discovery, node_name: str | None) -> Iterator[str]:
    """Yield notes on which machine's files are used for a pod on node *node_name*."""
    yield from host_root_notes()
    if node_name == "" and not (_is_said(request, node) or node.elsewhere or request.has_node_files):
        yield "the pod is on no node yet: this machine's files are used, and the pod may run on another node"
    if node.elsewhere and found.config:
        yield f"{node.elsewhere}: nothing of this machine counts as the node's unless an option gives it"
        if found.bin_dir and not request.no_run:
            yield "plugins are run on this machine, in the environment of this process; the node's may differ"
    elif not _is_said(request, node) and found.config and _is_a_guess(found):
        yield f"{_NO_KUBELET}: {found.config} is this machine's, and a node may have another config"
    if not found.config:
        yield no_config_note(node)


def _is_a_guess(found: Discovery) -> bool:
    """Return whether a config was found where no kubelet runs."""
    return found.config_from != "given" and found.kubelet is None


def no_config_note(node: Node) -> str:
    """Return why no plugin is asked where no provider config is found."""
    if node.kubelet is not None and not node.elsewhere:
        return "the kubelet has no provider config, so it asks no plugin"
    return "found no provider config, so no plugin is asked; give one with --config"


# The docker config.


class NodeDockerConfig(Value):
    """The node's docker config: its path, None if there is none, and how it was found.

    *missing* is one that exists and is not read, or that cannot be seen.
    """

    path: str | None = None
    origin: str = "given"
    missing: tuple[MissingInput, ...] = ()


def find_docker_config(request: Request, node: Node, node_name: str | None) -> NodeDockerConfig:
    """Return the docker config of *node*, as it is given or as the kubelet finds it."""
    option = request.docker_config
    if option is None and _is_known_node(request, node, node_name):
        option = _AUTO
    path, missing = option, tuple(_unread(request, node, option))
    if option == _AUTO:
        path, unknown = _search(request, node)
        missing = (*unknown, *missing)
    origin = "searched for as the kubelet does" if option == _AUTO else "given"
    return NodeDockerConfig(path=path, origin=origin, missing=missing)


def _is_known_node(request: Request, node: Node, node_name: str | None) -> bool:
    """Return whether this machine is known to be the node: ``--here`` says so, or a kubelet that a pod is for."""
    if node.elsewhere:
        return False
    if not request.is_pull and (_is_said(request, node) or node_name):
        return True  # the name of the pod's node was compared with this machine's
    # With both given, the search for a kubelet among all processes is skipped.
    return node_name is not None and not request.has_node_files and node.kubelet is not None


def _search(request: Request, node: Node) -> tuple[str | None, tuple[MissingInput, ...]]:
    kubelet = node.kubelet
    if node.elsewhere or (kubelet is None and not _is_said(request, node)):
        # The files in this user's home are not those of a kubelet.
        why = node.elsewhere or _NO_KUBELET
        return None, (MissingInput(input=LookupInput.DOCKER_CONFIG, name=_AUTO, instead=why),)
    home, cwd = _places(kubelet)
    for path, _ in node_config_candidates(_kubelet_root(node), cwd, home):
        seen = path if kubelet is None else kubelet.inside(path)
        if is_on_host(seen, os.path.isfile):
            return seen, ()
    return None, ()


def _places(kubelet: Kubelet | None) -> tuple[str, str]:
    """Return the home and working directory of the kubelet, or of this process with ``--here`` and no kubelet."""
    if kubelet is None:
        return ("", "/") if host_root() else (os.environ.get("HOME", ""), os.getcwd())
    environment = kubelet.read_environment() or {}
    try:
        return environment.get("HOME", ""), os.readlink(f"{kubelet.process}/cwd")
    except OSError:
        return environment.get("HOME", ""), ""


def _unread(request: Request, node: Node, option: str | None) -> Iterator[MissingInput]:
    """Yield the docker config in the kubelet's root if it exists and is not read, or cannot be seen."""
    if option not in (None, _AUTO) or node.elsewhere:
        return
    # With both config and plugins given, the search for a kubelet among all processes is skipped.
    root = KUBELET_ROOT if request.has_node_files and option is None else _kubelet_root(node)
    for path, _ in node_config_candidates(root, "", ""):
        if not path.startswith(root):
            continue
        try:
            is_there = stat.S_ISREG(os.stat(on_host(path)).st_mode)
        except PermissionError:
            why = "no permission to see whether it exists; try with sudo"
            yield MissingInput(input=LookupInput.DOCKER_CONFIG, name=path, instead=why)
            return
        except OSError:
            continue
        if is_there and option is None:
            yield MissingInput(input=LookupInput.DOCKER_CONFIG, name=path)
            return


def _kubelet_root(node: Node) -> str:
    settings = node.settings
    return KUBELET_ROOT if settings is None else settings.kubelet.inside(settings.root_dir.value)


# The environment of plugins.


class PluginEnvironment(Value):
    """The environment of plugins: its owner and its *variables*, None for those of this process.

    *traps* warn about an environment that is not the known kubelet's, *is_chosen* tells that the request wants that.
    """

    owner: str = "this process"
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    traps: tuple[Reason, ...] = ()
    is_chosen: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """The traps as notes; none for an environment that is chosen."""
        return () if self.is_chosen else tuple(reason.text for reason in self.traps)


def plugin_environment(request: Request, node: Node, found: Discovery) -> PluginEnvironment:
    """Return the environment of the kubelet that discovery or ``--env-from`` names, else that of this process.

    Raise EnvironmentProblem if ``--env-from kubelet`` is given and the environment cannot be read.
    """
    kubelet = found.kubelet or (node.kubelet if request.env_from == _KUBELET else None)
    is_own = request.env_from == _SELF
    variables = None if kubelet is None or is_own else kubelet.read_environment()
    if variables is not None:
        return PluginEnvironment(owner=str(kubelet), variables=variables)
    if request.env_from != _KUBELET:
        is_unseen = kubelet is None and bool(host_root()) and not (is_own or request.no_run or node.elsewhere)
        traps = () if kubelet is None and not is_unseen else (_trap(kubelet, is_own=is_own),)
        own = None if is_own else _environment_of_no_image()
        return PluginEnvironment(variables=own, traps=traps, is_chosen=is_own)
    if kubelet is None:
        raise EnvironmentProblem("--env-from kubelet: found no running kubelet")
    raise EnvironmentProblem(
        f"--env-from kubelet: no permission to read the environment of {kubelet}; {_how_to_read()}"
    )


def _environment_of_no_image() -> Mapping[str, str] | None:
    """Return the environment of this process below a host root, without what its image has set; else None."""
    if not host_root():
        return None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_AN_IMAGE)}
    return {**kept, "PATH": _SYSTEMD_PATH}


def _how_to_read() -> str:
    """Return what lets this process read the environment of another: root, or in a container the right to trace it."""
    return (
        "it takes a privileged pod, such as kubectl debug --profile=sysadmin"
        if host_root()
        else "try with sudo"
    )


def _trap(kubelet: Kubelet | None, *, is_own: bool) -> Reason:
    """Return a warning that plugins get another environment than the kubelet's."""
    if kubelet is None:
        why = f"since {_NO_KUBELET}, as far as can be seen from here"
    elif is_own:
        why = f"not that of {kubelet}, as --env-from is self"
    else:
        why = f"not that of {kubelet}, which cannot be read; {_how_to_read()}"
    text = (
        f"plugins get the environment of this process, {why}: "
        "proxies, regions and credentials may differ, and so may the result"
    )
    return Reason(stage=ReasonStage.TRAP, subject="environment", outcome=ReasonOutcome.ENVIRONMENT, text=text)
