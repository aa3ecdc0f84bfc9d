"""Whether this machine is the pod's node, and what of it then counts as the node's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from keyferry._core.values import replace
from keyferry.cli.frame.sources import Sources
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.node.kubelet import KUBELET_ROOT, Kubelet
from keyferry.images.node.settings import Node, node_config_candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.node.discover import Discovery
    from keyferry.images.node.settings import KubeletSettings

__all__ = [
    "add_here_argument",
    "add_node_files",
    "choose_node",
    "machine_notes",
    "missing_node",
    "no_config_note",
]

_AUTO = "auto"
NO_KUBELET = "no kubelet runs on this machine"


def add_here_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--here``, for a machine that is the pod's node and is not known to be."""
    parser.add_argument(
        "--here",
        action="store_true",
        default=False,
        help="this machine is the pod's node: use its config, docker config, records and mirrors (default: only if "
        "the kubelet that runs here has the name of that node)",
    )


def choose_node(args: argparse.Namespace, node_name: str | None) -> Node:
    """Return this machine as a node, or a node elsewhere if the pod's node, *node_name*, is not this machine.

    Without a pod, *node_name* is None and this machine counts. A pod that is on no node counts as one of this machine
    if a kubelet runs here.
    """
    node: Node = args.node
    if args.here or node_name is None or node.elsewhere:
        return node
    if not node_name:
        # With both given, nothing of this machine is searched.
        if _is_given(args) or node.kubelet is not None:
            return node
        return Node(elsewhere=f"the pod is on no node yet, and {NO_KUBELET}")
    names = [kubelet.node_name for kubelet in node.kubelets.trusted]
    if node_name in names:
        return node
    return Node(elsewhere=f"the pod is on node {node_name!r}, and {_describe(node, names)}")


def _is_given(args: argparse.Namespace) -> bool:
    return bool(args.config and args.bin_dir)


def _describe(node: Node, names: list[str]) -> str:
    known = [name for name in names if name]
    if known:
        return f"this machine is node {known[0]!r}"
    if names:
        return "the name of this machine's node is not known"
    hidden = node.kubelets.hidden
    return f"no kubelet can be seen on this machine: {hidden}" if hidden else NO_KUBELET


def missing_node(args: argparse.Namespace, found: Discovery) -> tuple[MissingInput, ...]:
    """Return the node as a missing input if its provider config is not known, else its docker config if that is not."""
    node: Node = args.node
    if found.config and node.elsewhere and args.docker_config is None:
        return (MissingInput(input=LookupInput.DOCKER_CONFIG, instead=node.elsewhere),)
    if found.config or args.here or (node.kubelet is not None and not node.elsewhere):
        return ()
    return (MissingInput(input=LookupInput.NODE, instead=node.elsewhere or NO_KUBELET),)


def machine_notes(args: argparse.Namespace, found: Discovery, node_name: str | None) -> Iterator[str]:
    """Yield notes on which machine's files are used for a pod on node *node_name*."""
    node: Node = args.node
    if node_name == "" and not (args.here or node.elsewhere or _is_given(args)):
        yield "the pod is on no node yet: this machine's files are used, and the pod may run on another node"
    if node.elsewhere and found.config:
        yield f"{node.elsewhere}: nothing of this machine counts as the node's unless an option gives it"
        if found.bin_dir and not args.no_run:
            yield "plugins are run on this machine, in the environment of this process; the node's may differ"
    elif found.config and found.config_from != "given" and found.kubelet is None and not args.here:
        yield f"{NO_KUBELET}: {found.config} is this machine's, and a node may have another config"
    if not found.config:
        yield no_config_note(node)


def no_config_note(node: Node) -> str:
    """Return why no plugin is asked where no provider config is found."""
    if node.kubelet is not None and not node.elsewhere:
        return "the kubelet has no provider config, so it asks no plugin"
    return "found no provider config, so no plugin is asked; give one with --config"


def add_node_files(args: argparse.Namespace, sources: Sources) -> Sources:
    """Return *sources* with the node's docker config, and with the one that exists and is not read as missing."""
    option: str | None = args.docker_config
    if option is None and _is_node(args, sources.node_name):
        option = _AUTO
    found, missing = _docker_config(args, option)
    return replace(
        sources,
        docker_config=found,
        docker_config_from="searched for as the kubelet does" if option == _AUTO else "given",
        missing=(*sources.missing, *missing, *_missing_docker_config(args, option)),
    )


def _is_node(args: argparse.Namespace, node_name: str | None) -> bool:
    """Return whether this machine is known to be the node: ``--here`` says so, or a kubelet that a pod is for."""
    node: Node = args.node
    if node.elsewhere:
        return False
    if args.is_question and (args.here or node_name):
        return True  # the name of the pod's node was compared with this machine's
    # With both given, the search for a kubelet among all processes is skipped.
    return node_name is not None and not _is_given(args) and node.kubelet is not None


def _docker_config(
    args: argparse.Namespace, option: str | None
) -> tuple[str | None, tuple[MissingInput, ...]]:
    if option != _AUTO:
        return option, ()
    node: Node = args.node
    kubelet = node.kubelet
    if node.elsewhere or (kubelet is None and not args.here):
        # The files in this user's home are not those of a kubelet.
        why = node.elsewhere or NO_KUBELET
        return None, (MissingInput(input=LookupInput.DOCKER_CONFIG, name=_AUTO, instead=why),)
    home, cwd = _places(kubelet)
    for path, _ in node_config_candidates(_kubelet_root(args), cwd, home):
        seen = path if kubelet is None else kubelet.inside(path)
        if os.path.isfile(seen):
            return seen, ()
    return None, ()


def _places(kubelet: Kubelet | None) -> tuple[str, str]:
    """Return the home and working directory of the kubelet, or of this process with ``--here`` and no kubelet."""
    if kubelet is None:
        return os.environ.get("HOME", ""), os.getcwd()
    environment = kubelet.read_environment() or {}
    try:
        return environment.get("HOME", ""), os.readlink(f"{kubelet.process}/cwd")
    except OSError:
        return environment.get("HOME", ""), ""


def _missing_docker_config(args: argparse.Namespace, option: str | None) -> Iterator[MissingInput]:
    """Yield the docker config in the kubelet's root if it exists and is not read, or cannot be seen."""
    if option not in (None, _AUTO) or args.node.elsewhere:
        return
    # With both config and plugins given, the search for a kubelet among all processes is skipped.
    root = KUBELET_ROOT if _is_given(args) and option is None else _kubelet_root(args)
    for path, _ in node_config_candidates(root, "", ""):
        if not path.startswith(root):
            continue
        try:
            is_there = stat.S_ISREG(os.stat(path).st_mode)
        except PermissionError:
            yield MissingInput(
                input=LookupInput.DOCKER_CONFIG,
                name=path,
                instead="no permission to see whether it exists; try with sudo",
            )
            return
        except OSError:
            continue
        if is_there and option is None:
            yield MissingInput(input=LookupInput.DOCKER_CONFIG, name=path)
            return


def _kubelet_root(args: argparse.Namespace) -> str:
    settings: KubeletSettings | None = args.node.settings
    return KUBELET_ROOT if settings is None else settings.kubelet.inside(settings.root_dir.value)
