"""The objects that helm renders, and Kubernetes' published schemas to check them with."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate.utils import (  # type: ignore[import-untyped]  # it has no types
    all_versions,
    major_minor,
    schema_contents,
)
from referencing import Registry, Resource

from support.parts import need_part

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy"
CHART = DEPLOY / "helm" / "keyferry"
# The oldest release that is checked.
_FIRST_VERSION = "1.31"
Document = dict[str, Any]
NAMESPACE = "kube-system"
UNINSTALL = ("--set", "uninstall=true")
# The chart has no image of its own.
REPOSITORY = "registry.example/keyferry"
_IMAGE = ("--set", f"image.repository={REPOSITORY}")
# The labels that only objects of a release have: those of deploy/manifests lack them.
_RELEASE_LABELS = ("app.kubernetes.io/managed-by", "helm.sh/chart")
# The options of helm for every distribution.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    **{each.stem: ("-f", str(each)) for each in sorted((CHART / "distributions").iterdir())},
}
# Other values of the chart, by what they show.
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "eks on the pod's network": (*DISTRIBUTIONS["eks"], "--set", "hostNetwork=false"),
    "beside": ("--set", "shim.beside=keyferry,shim.plugin=/etc/kubernetes/credential-provider/bin/real"),
    "beside, with its entry": ("--set", "shim.beside=keyferry,shim.matchImages={*.registry.example}"),
    "figures": ("--set", "metrics.enabled=true,metrics.podMonitor.enabled=true"),
    "figures by IPv6": ("--set", "metrics.enabled=true,metrics.address=[$(POD_IP)]"),
    "figures on the host": ("--set", "metrics.enabled=true,hostNetwork=true"),
    "figures at the node's address": (
        "--set",
        "hostNetwork=true,metrics.enabled=true,metrics.podMonitor.enabled=true,metrics.address=$(POD_IP)",
    ),
    "audiences": ("--set", "tokenAudiences={registry.example,sts.amazonaws.com}"),
    "selinux": ("--set", "seLinuxType=spc_t"),
    "image": ("--set", f"image.repository=registry.example/other,image.digest=sha256:{'0' * 64}"),
    "names": ("--set", "fullnameOverride=node-agent"),
    "figures for a namespace": (
        "--set",
        "metrics.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
    ),
    "pull secret": ("--set", "imagePullSecrets[0].name=pull"),
    "no policy": ("--set", "networkPolicy.enabled=false"),
    "another root": ("--set", "node.plugins=/data/kubelet/plugins"),
    "folder of configs": ("--set", "node.providerConfigType=Directory"),
    "scheduling": ("--set", "affinity.podAffinity=null,podLabels.team=a,podAnnotations.note=b,maxSurge=3"),
    "environment": ("--set", "env[0].name=HTTPS_PROXY,env[0].value=http://proxy.example:3128"),
}


def load(text: str) -> list[Document]:
    """Return the objects of a file."""
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def find_helm() -> str:
    """Return the path of helm."""
    return need_part("deploy/node_modules/.bin/helm")


def run_helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm, without a cluster."""
    return subprocess.run([find_helm(), *words], capture_output=True, text=True, check=False)


@cache
def _template(release: str, *options: str) -> str:
    places = (release, str(CHART), "--namespace", NAMESPACE, "--kube-version", f"{_FIRST_VERSION}.0")
    done = run_helm("template", *places, *_IMAGE, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(*options: str, release: str = "keyferry") -> list[Document]:
    """Return the objects of the chart."""
    return load(_template(release, *options))


def unmanaged(documents: list[Document]) -> list[Document]:
    """Return objects as those have them who have only kubectl."""
    found = deepcopy(documents)
    for each in found:
        for label in _RELEASE_LABELS:
            del each["metadata"]["labels"][label]
    return found


def names() -> list[tuple[str, Callable[[], list[Document]]]]:
    """Return every rendering there is: its name, and how to make it."""
    found: list[tuple[str, Callable[[], list[Document]]]] = []
    for name, options in DISTRIBUTIONS.items():
        found += [(name, partial(helm, *options)), (f"uninstall {name}", partial(helm, *options, *UNINSTALL))]
    return [*found, *((name, partial(helm, *options)) for name, options in VARIANTS.items())]


def everything() -> Iterator[tuple[str, list[Document]]]:
    """Yield every rendering there is, with its name."""
    return ((name, make()) for name, make in names())


def daemonset(documents: list[Document]) -> Document:
    """Return the one DaemonSet."""
    (found,) = (each for each in documents if each["kind"] == "DaemonSet")
    return dict(found)


def pod_spec(documents: list[Document]) -> Document:
    """Return what the DaemonSet's pods are."""
    return dict(daemonset(documents)["spec"]["template"]["spec"])


def containers(documents: list[Document]) -> list[Document]:
    """Return the containers of the pods, those that run first included."""
    spec = pod_spec(documents)
    return [*spec.get("initContainers", ()), *spec["containers"]]


def versions() -> list[str]:
    """Return the releases of Kubernetes whose schemas are at hand."""
    found = sorted({major_minor(each) for each in all_versions()}, key=_order)
    return [each for each in found if _order(each) >= _order(_FIRST_VERSION)]


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def problems(document: Document, version: str) -> list[str]:
    """Return what a strict API server of that release refuses in an object."""
    group, _, last = document["apiVersion"].rpartition("/")
    prefix = f"{group.partition('.')[0]}-" if group else ""
    validator = _validator(f"{document['kind'].lower()}-{prefix}{last}.json", version)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@cache
def _validator(name: str, version: str) -> jsonschema.Draft202012Validator:
    schema = schema_contents(f"{_schemas(version)}/{name}", version)
    return jsonschema.Draft202012Validator(schema, registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    contents = schema_contents(f"{_schemas(version)}/_definitions.json", version)
    return Resource.from_contents(contents) @ Registry()


def _schemas(version: str) -> str:
    return f"kubernetes-json-schema/v{version}.0-local-strict"
