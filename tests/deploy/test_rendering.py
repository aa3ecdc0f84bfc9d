"""What helm renders: objects that every current release of Kubernetes takes, and the manifests for kubectl."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import keyferry
from keyferry.images.node.discover import WELL_KNOWN_CONFIGS, WellKnownConfig
from support import manifests
from support.commands import run_in_process
from support.manifests import CHART, DEPLOY, DISTRIBUTIONS, Document, find_helm

# Objects that a cluster has only with the Prometheus operator: there is no published schema of Kubernetes'.
FOREIGN = {"PodMonitor"}


def test_the_manifests_are_what_helm_renders(tmp_path: Path) -> None:
    """``deploy/manifests/render.sh`` writes them again."""
    script = DEPLOY / "manifests" / "render.sh"
    environ = os.environ | {"HELM": find_helm()}
    subprocess.run(["sh", str(script), str(tmp_path)], check=True, env=environ)
    rendered = {str(each.relative_to(tmp_path)): each.read_text() for each in tmp_path.rglob("*.yaml")}
    kept = {str(each.relative_to(script.parent)): each.read_text() for each in script.parent.rglob("*.yaml")}
    assert kept == rendered
    assert set(kept) == {
        f"{name}/{action}.yaml"
        for name in DISTRIBUTIONS
        if name != "plain"
        for action in ("install", "uninstall")
    }


@pytest.mark.parametrize(
    "path",
    sorted((DEPLOY / "manifests").rglob("*.yaml")),
    ids=lambda path: f"{path.parent.name} {path.stem}",
)
def test_a_manifest_has_an_image_to_replace_and_no_label_of_a_release(path: Path) -> None:
    placeholder = f"keyferry:{keyferry.__version__}"
    assert path.read_text().splitlines()[0].startswith(f"# Replace the image {placeholder} ")
    documents = manifests.load(path.read_text())
    assert {each["image"] for each in manifests.containers(documents)} == {placeholder}
    options = (*DISTRIBUTIONS[path.parent.name], *(manifests.UNINSTALL if path.stem == "uninstall" else ()))
    assert documents == manifests.unmanaged(manifests.helm(*options, "--set", "image.repository=keyferry"))


def test_objects_are_in_the_namespace_of_the_nodes_own_programs() -> None:
    spaces = {
        each["metadata"].get("namespace")
        for _, documents in manifests.everything()
        for each in documents
        if not each["kind"].startswith("Cluster")
    }
    assert spaces == {manifests.NAMESPACE}


@pytest.mark.parametrize("known", WELL_KNOWN_CONFIGS, ids=lambda known: known.distribution)
def test_paths_are_those_where_other_commands_look(known: WellKnownConfig) -> None:
    names = {"EKS": "eks", "AKS": "aks", "GKE": "gke", "k3s or RKE2": "k3s", "Talos": "talos"}
    if known.distribution == "Bottlerocket":
        assert "bottlerocket" not in DISTRIBUTIONS  # its folder of plugins cannot be written
        return
    node = yaml.safe_load((CHART / "distributions" / f"{names[known.distribution]}.yaml").read_text())["node"]
    assert (node["providerConfig"], node["binDir"]) == (known.config, known.bin_dir)


def test_every_object_fits_kubernetes_published_schemas() -> None:
    seen: list[Document] = []
    for _, documents in manifests.everything():
        seen += [each for each in documents if each not in seen and each["kind"] not in FOREIGN]
    assert len(manifests.versions()) > 5
    refused = {
        f"{version} {each['kind']}: {problem}"
        for each in seen
        for version in manifests.versions()
        for problem in manifests.problems(each, version)
    }
    assert not refused


def test_the_schemas_do_find_mistakes() -> None:
    document = manifests.daemonset(manifests.helm())
    document["spec"]["template"]["spec"]["hostNetwrok"] = True
    document["spec"]["minReadySeconds"] = "10"
    for version in manifests.versions():
        found = " ".join(manifests.problems(document, version))
        assert "hostNetwrok" in found
        assert "'10' is not of type 'integer'" in found


def test_what_the_prometheus_operator_gets() -> None:
    documents = manifests.helm(*manifests.VARIANTS["figures"])
    (monitor,) = (each for each in documents if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (agent,) = manifests.pod_spec(documents)["containers"]
    assert endpoint["port"] == agent["ports"][0]["name"]
    labels = manifests.daemonset(documents)["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_prometheus_finds_the_figures_on_the_hosts_network_without_a_declared_port() -> None:
    """By the address of the pod, which is the node's there, and the number of the port; not of init containers."""
    documents = manifests.helm(*manifests.VARIANTS["figures at the node's address"])
    (monitor,) = (each for each in documents if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (agent,) = manifests.pod_spec(documents)["containers"]
    assert {"name": "KEYFERRY_AGENT_METRICS", "value": "$(POD_IP):9750"} in agent["env"]
    assert "ports" not in agent
    assert "port" not in endpoint
    dropped, *rules = endpoint["relabelings"]
    assert (dropped["action"], dropped["sourceLabels"]) == (
        "drop",
        ["__meta_kubernetes_pod_container_init"],
    )
    for pod_ip, address in (("10.0.3.17", "10.0.3.17:9750"), ("fd00::7", "[fd00::7]:9750")):
        found = [
            re.sub(f"^{each['regex']}$", each["replacement"].replace("$1", r"\1"), pod_ip)
            for each in rules
            if each["targetLabel"] == "__address__" and re.fullmatch(each["regex"], pod_ip)
        ]
        assert found == [address]


@pytest.mark.parametrize(
    ("variant", "address"), [("figures", "$(POD_IP):9750"), ("figures by IPv6", "[$(POD_IP)]:9750")]
)
def test_figures_are_at_the_pods_address(variant: str, address: str) -> None:
    (agent,) = manifests.pod_spec(manifests.helm(*manifests.VARIANTS[variant]))["containers"]
    names = [each["name"] for each in agent["env"]]
    # A variable is expanded only if it is defined before.
    assert names.index("POD_IP") < names.index("KEYFERRY_AGENT_METRICS")
    assert agent["env"][names.index("KEYFERRY_AGENT_METRICS")]["value"] == address


def test_figures_on_the_hosts_network_are_on_loopback_and_hold_no_port() -> None:
    (agent,) = manifests.pod_spec(manifests.helm(*manifests.VARIANTS["figures on the host"]))["containers"]
    assert {"name": "KEYFERRY_AGENT_METRICS", "value": "127.0.0.1:9750"} in agent["env"]
    # A declared port would be the host's, and the pod of an upgrade would wait for it.
    assert "ports" not in agent


def agent_config(documents: list[Document]) -> str:
    (config,) = (each for each in documents if each["kind"] == "ConfigMap")
    return str(config["data"]["agent.yaml"])


def test_every_config_of_the_agent_is_without_a_problem(tmp_path: Path) -> None:
    rules = "--set-string", "config.socketMode=0666", "--set", "config.access[0].uids={1000}"
    more = "--set", "config.access[0].registries={registry.example}"
    texts = {agent_config(documents) for _, documents in manifests.everything()}
    texts.add(agent_config(manifests.helm(*rules, *more)))
    assert len(texts) == 2
    for number, text in enumerate(sorted(texts)):
        file = tmp_path / f"agent-{number}.yaml"
        file.write_text(text)
        done = run_in_process("lint", str(file))
        assert (done.returncode, "no problems" in done.stdout + done.stderr) == (0, True), done.stdout
        assert yaml.safe_load(text)["logFormat"] == "json"


def test_the_versions_are_those_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == keyferry.__version__
    for name, documents in manifests.everything():
        if name != "image":
            images = {each["image"] for each in manifests.containers(documents)}
            assert images == {f"{manifests.REPOSITORY}:{keyferry.__version__}"}, name


@pytest.mark.parametrize(
    ("distribution", "plugin", "user", "is_on_the_host"),
    [
        ("plain", "", 0, False),
        ("eks", "ecr-credential-provider", 65532, True),
        ("aks", "acr-credential-provider", 0, False),
        ("gke", "auth-provider-gcp", 0, True),
        ("k3s", "", 0, False),
        ("talos", "", 0, False),
    ],
)
def test_what_each_distribution_gets(distribution: str, plugin: str, user: int, is_on_the_host: bool) -> None:
    """Its shim, its user, its network and no object more than it needs."""
    documents = manifests.helm(*DISTRIBUTIONS[distribution])
    spec = manifests.pod_spec(documents)
    (agent,) = spec["containers"]
    installers = [each["env"] for each in spec.get("initContainers", ())]
    assert [{"name": "KEYFERRY_PLUGIN", "value": plugin} in each for each in installers] == [True] * bool(
        plugin
    )
    assert agent["securityContext"]["runAsUser"] == user
    assert spec.get("hostNetwork", False) is is_on_the_host
    policy = [] if is_on_the_host else ["NetworkPolicy"]
    assert sorted(each["kind"] for each in documents) == ["ConfigMap", "DaemonSet", *policy, "ServiceAccount"]


def test_every_object_has_the_labels_that_kubernetes_recommends() -> None:
    """The name and the component are the same whatever a release is called: others find agents by them."""
    for options in ((), ("--set", "fullnameOverride=other,nameOverride=another")):
        for each in manifests.helm(*options):
            labels = dict(each["metadata"]["labels"])
            assert labels == {
                "app.kubernetes.io/name": "keyferry",
                "app.kubernetes.io/instance": "keyferry",
                "app.kubernetes.io/component": "agent",
                "app.kubernetes.io/part-of": "keyferry",
                "app.kubernetes.io/version": keyferry.__version__,
                "app.kubernetes.io/managed-by": "Helm",
                "helm.sh/chart": f"keyferry-{keyferry.__version__}",
            }


def test_pods_keep_their_labels_when_the_chart_changes() -> None:
    """A selector cannot be changed, and a label with a version would restart pods that are the same."""
    found = manifests.daemonset(manifests.helm())["spec"]
    labels = {
        "app.kubernetes.io/name": "keyferry",
        "app.kubernetes.io/instance": "keyferry",
        "app.kubernetes.io/component": "agent",
    }
    assert found["selector"]["matchLabels"] == found["template"]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("release", "settings", "name"),
    [
        ("keyferry", "", "keyferry"),
        ("node", "", "node-keyferry"),
        ("keyferry-2", "", "keyferry-2"),
        ("node", "nameOverride=agent", "node-agent"),
        ("node", "fullnameOverride=creds", "creds"),
        ("n" * 53, "nameOverride=a-name-that-is-long", "n" * 53 + "-a-name-th"),
    ],
)
def test_objects_are_named_after_the_release_or_as_wanted(release: str, settings: str, name: str) -> None:
    """Each refers to the others by these names; two releases do not touch each other's pods."""
    options = "--set", f"tokenAudiences={{a.example}},{settings}".rstrip(",")
    documents = manifests.helm(*options, release=release)
    names = {(each["kind"], each["metadata"]["name"]) for each in documents}
    own = {(kind, name) for kind in ("ConfigMap", "DaemonSet", "NetworkPolicy", "ServiceAccount")}
    cluster_wide = {(kind, f"{name}-token-audiences") for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert names == own | cluster_wide
    spec = manifests.pod_spec(documents)
    assert spec["serviceAccountName"] == name
    assert {"name": "config", "configMap": {"name": name}} in spec["volumes"]
    (binding,) = (each for each in documents if each["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == f"{name}-token-audiences"
    selector = manifests.daemonset(documents)["spec"]["selector"]["matchLabels"]
    assert selector["app.kubernetes.io/instance"] == release
