"""What a question about many pods is checked for before any pod is listed: its options, and the files they name."""

from __future__ import annotations

import os

from keyferry._core.host_root import host_root
from keyferry._core.values import replace
from keyferry.errors import EnvironmentProblem
from keyferry.explain.gather import explain_inputs
from keyferry.images.node.settings import Node
from keyferry.workloads.inputs import Sources, read_sources, resolve
from keyferry.workloads.request import Request
from keyferry.workloads.sources import read_secret_files

__all__ = ["alone", "many_contradiction", "prepare"]

# An image of no registry, about which the files are asked.
_NO_IMAGE = "registry.invalid/image"


def many_contradiction(request: Request) -> str:
    """Return what does not go together in a question about many pods; empty if nothing."""
    if request.here and not request.on_node:
        return "--here says that this machine is the node of all pods: name the node with --node NAME, or leave it out"
    return request.contradiction


def prepare(request: Request) -> Request:
    """Return the request with its secrets, which are read once, and with the node whose files count.

    That is none for a host root of which no kubelet tells the node.
    Raise EnvironmentProblem if the request does not go together, or for a file that it names and that cannot be read,
    and ConfigError for a config that it names.
    """
    if why_not := many_contradiction(request):
        raise EnvironmentProblem(why_not)
    if request.registry.ca_file and not os.path.isfile(request.registry.ca_file):
        raise EnvironmentProblem(f"CA file {request.registry.ca_file!r}: does not exist")
    request = replace(request, secret_objects=read_secret_files(request))
    _read_files(request)
    node = request.node or Node()
    if host_root() and not request.on_node and node.kubelet is None:
        node = Node(elsewhere=f"no kubelet tells which node has the files below {host_root()}")
    return replace(request, node=node)


def _read_files(request: Request) -> None:
    """Read the files that the request names, by an answer that takes nothing else; no plugin is run."""
    node = Node(elsewhere="no pod is asked about")
    records = replace(request.records, cri="")
    image = alone(request, "", "", _NO_IMAGE)
    # Without a config there may be one on a pod's node.
    bin_dir = request.bin_dir if request.config else None
    files = replace(
        image, node=node, here=False, bin_dir=bin_dir, no_run=True, check_registry=False, records=records
    )
    read_sources(files)
    explain_inputs(resolve(files, Sources()), _NO_IMAGE)


def alone(request: Request, target: str, namespace: str, image: str = "") -> Request:
    """Return the request about one pod or workload alone, with the same options."""
    return replace(
        request,
        target=target,
        namespace=namespace,
        image=image,
        all_namespaces=False,
        label_selector="",
        field_selector="",
        on_node="",
    )
