"""What kustomize and helm render: the same objects, which every current release of Kubernetes takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import keyferry
from keyferry.images.node.discover import WELL_KNOWN_CONFIGS, WellKnownConfig
from keyferry.lint.kinds.agent_config import check_agent_config
from support import manifests
from support.commands import run_keyferry
from support.manifests import CHART, COMPONENTS, KINDS, KUSTOMIZE, OVERLAYS, Document, Kustomization

# Objects that a cluster has only with the Prometheus operator: there is no published schema of Kubernetes'.
FOREIGN = {"PodMonitor"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_chart_renders_the_same_objects_as_the_overlay(name: str) -> None:
    options = OVERLAYS[name]
    for kind, more in zip(KINDS, ((), ("--set", "uninstall=true")), strict=True):
        rendered = manifests.by_name(manifests.kustomize(f"{kind}/{name}"))
        assert rendered == manifests.by_name(manifests.helm(*options, *more))


@pytest.mark.parametrize("each", COMPONENTS, ids=lambda each: each.components[0])
def test_components_are_values_of_the_chart(each: Kustomization) -> None:
    rendered = manifests.by_name(manifests.kustomize(each.resource, *each.components))
    assert rendered == manifests.by_name(manifests.helm("--set", COMPONENTS[each]))


def test_objects_are_in_the_namespace_of_the_nodes_own_programs() -> None:
    for kind in KINDS:
        for name in OVERLAYS:
            file = KUSTOMIZE / kind / name / "kustomization.yaml"
            assert yaml.safe_load(file.read_text())["namespace"] == manifests.NAMESPACE
    alone = manifests.build(KUSTOMIZE / "overlays" / "eks")
    assert alone == manifests.kustomize("overlays/eks")


def test_kubectl_prints_the_same_bytes_as_kustomize() -> None:
    """It has a kustomize of its own, of another version. All are in one run, since each run takes seconds."""
    wanted = {
        f"{kind}-{name}": {"resources": [KUSTOMIZE / kind / name]} for kind in KINDS for name in OVERLAYS
    }
    with manifests.together(wanted) as folder:
        text = manifests.build_text_by_kubectl(folder)
        assert text == manifests.build_text(folder)
    assert all(f"namespace: {name}\n" in text for name in wanted)


def test_every_overlay_is_tested_and_can_be_uninstalled() -> None:
    for kind in KINDS:
        assert sorted(each.name for each in (KUSTOMIZE / kind).iterdir()) == sorted(OVERLAYS)
    files = {each.stem for each in (CHART / "distributions").iterdir()}
    assert files == set(OVERLAYS) - {"plain", "eks-pod-network"}


@pytest.mark.parametrize("known", WELL_KNOWN_CONFIGS, ids=lambda known: known.distribution)
def test_paths_are_those_where_other_commands_look(known: WellKnownConfig) -> None:
    names = {"EKS": "eks", "AKS": "aks", "GKE": "gke", "k3s or RKE2": "k3s", "Talos": "talos"}
    if known.distribution == "Bottlerocket":
        assert "bottlerocket" not in OVERLAYS  # its folder of plugins cannot be written
        return
    node = yaml.safe_load((CHART / "distributions" / f"{names[known.distribution]}.yaml").read_text())["node"]
    assert (node["providerConfig"], node["binDir"]) == (known.config, known.bin_dir)


def test_every_component_is_used() -> None:
    files = [
        *KUSTOMIZE.glob("overlays/*/kustomization.yaml"),
        *KUSTOMIZE.glob("uninstall/*/kustomization.yaml"),
    ]
    used = {
        Path(each).name for file in files for each in yaml.safe_load(file.read_text()).get("components", ())
    }
    tested_alone = {name for each in COMPONENTS for name in each.components}
    assert used | tested_alone == set(manifests.components())


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
    (policy,) = (each for each in documents if each["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]


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
        done = run_keyferry("lint", str(file))
        assert (done.returncode, "no problems" in done.stdout + done.stderr) == (0, True), done.stdout
        assert check_agent_config(str(file), text.encode()).config.settings["logFormat"] == "json"


def test_the_versions_are_those_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == keyferry.__version__
    for name, documents in manifests.everything():
        if name != "helm image":
            images = {each["image"] for each in manifests.containers(documents)}
            assert images == {f"localhost/keyferry:{keyferry.__version__}"}, name


def test_what_is_executed_is_in_the_image() -> None:
    image = json.loads((manifests.DEPLOY / "container" / "image.json").read_text())
    assert Path(image["entrypoint"][0]).name == "keyferry"
    folders = image["environment"]["PATH"].split(":")
    probe = Path(image["healthcheck"][0])
    assert (probe.name, str(probe.parent) in folders) == ("keyferry-probe", True)
    assert f"{image['prefix']}/bin" in folders  # where its Python is
    users = {
        each["securityContext"]["runAsUser"]
        for _, documents in manifests.everything()
        for each in manifests.containers(documents)
    }
    assert users == {0, image["user"]}
