"""What no rendering has: privileges, tokens, namespaces of the host and folders of it that nobody needs."""

from __future__ import annotations

import pytest

from support import manifests
from support.manifests import Document

RENDERED = [name for name, _ in manifests.names()]
# The installer links and writes files of the node; with an agent of its own user, it gives away the socket's folder.
INSTALLER = "shim"
INSTALLERS_CAPABILITIES = {"DAC_OVERRIDE", "FOWNER", "CHOWN"}
ON_THE_HOSTS_NETWORK = (
    *("eks", "gke", "uninstall eks", "uninstall gke", "figures on the host"),
    "figures at the node's address",
)
WITH_FIGURES = ("figures", "figures by IPv6", "figures for a namespace")
AGENTS_USER = 65532


@pytest.fixture(params=RENDERED)
def rendered(request: pytest.FixtureRequest) -> tuple[str, list[Document]]:
    """One rendering and its name."""
    name: str = request.param
    return name, dict(manifests.names())[name]()


def test_pods_and_containers_are_restricted(rendered: tuple[str, list[Document]]) -> None:
    name, documents = rendered
    spec = manifests.pod_spec(documents)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"} & set(spec)
    assert spec.get("hostNetwork", False) is (name in ON_THE_HOSTS_NETWORK)
    for each in manifests.containers(documents):
        check_container(each)
    (account,) = (each for each in documents if each["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def check_container(container: Document) -> None:
    """Nothing but the installer has a capability, and nothing is privileged."""
    context = container["securityContext"]
    assert context["privileged"] is False
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"]["drop"] == ["ALL"]
    added = set(context["capabilities"].get("add", ()))
    assert added <= (INSTALLERS_CAPABILITIES if container["name"] == INSTALLER else set())
    assert ("--agent-user" in container.get("args", ())) is ("CHOWN" in added)
    if context["runAsUser"]:
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, AGENTS_USER)
    assert container["resources"]["limits"]["memory"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_only_the_installer_and_the_socket_can_be_written(rendered: tuple[str, list[Document]]) -> None:
    _, documents = rendered
    spec = manifests.pod_spec(documents)
    volumes = {each["name"]: each for each in spec["volumes"]}
    for container in manifests.containers(documents):
        for mount in container.get("volumeMounts", ()):
            is_writable = not mount.get("readOnly", False)
            is_own = mount["name"] in ("socket", "tmp") or container["name"] == INSTALLER
            assert is_writable is is_own, mount
            host_path = volumes[mount["name"]].get("hostPath")
            # Where the node has them, so that paths in configs, links and messages are right in both.
            assert host_path is None or host_path["path"] == mount["mountPath"]
    for volume in volumes.values():
        if "hostPath" in volume:
            check_host_path(volume["hostPath"], volume["name"])


def check_host_path(host_path: Document, name: str) -> None:
    """Folders of the node exist already, but for the socket's; none is wide, and no socket is mounted itself."""
    assert (
        host_path["type"] == "DirectoryOrCreate"
        if name == "socket"
        else host_path["type"] in ("File", "Directory")
    )
    assert host_path["path"].count("/") > 2, host_path
    assert not host_path["path"].endswith("/kubelet")


def test_an_uninstalled_node_gets_no_folder_again(rendered: tuple[str, list[Document]]) -> None:
    name, documents = rendered
    types = {
        each["hostPath"]["type"] for each in manifests.pod_spec(documents)["volumes"] if "hostPath" in each
    }
    assert ("DirectoryOrCreate" in types) is ("uninstall" not in name)


def test_every_node_has_an_agent_and_upgrades_have_no_gap() -> None:
    for name, make in manifests.names():
        set_spec, spec = manifests.daemonset(make())["spec"], manifests.pod_spec(make())
        assert spec["priorityClassName"] == "system-node-critical"
        assert spec["tolerations"] == [{"operator": "Exists"}]
        assert spec["dnsPolicy"] == "Default"
        strategy = set_spec["updateStrategy"]
        assert strategy["type"] == "RollingUpdate"
        rolling = strategy["rollingUpdate"]
        if "uninstall" in name:
            assert rolling == {"maxSurge": 0, "maxUnavailable": "100%"}
        else:
            assert rolling == {"maxSurge": 3 if name == "scheduling" else "10%", "maxUnavailable": 0}


def test_probes_ask_the_agent_alone() -> None:
    for name, make in manifests.names():
        for container in manifests.pod_spec(make())["containers"]:
            if container["name"] == "agent":
                commands = {
                    kind: container[f"{kind}Probe"]["exec"]["command"] for kind in ("liveness", "readiness")
                }
                assert commands == {
                    "liveness": ["keyferry-probe", "live"],
                    "readiness": ["keyferry-probe", "ready"],
                }, name


def test_the_agent_has_no_rights_in_the_cluster() -> None:
    subjects = [
        subject
        for _, make in manifests.names()
        for each in make()
        if each["kind"].endswith("RoleBinding")
        for subject in each["subjects"]
    ]
    assert subjects
    assert {(each["kind"], each["name"]) for each in subjects} == {("Group", "system:nodes")}


def policies(documents: list[Document]) -> list[Document]:
    return [each for each in documents if each["kind"] == "NetworkPolicy"]


def test_nobody_can_connect_by_network_unless_figures_are_asked_for() -> None:
    for name, make in manifests.names():
        for each in policies(make()):
            assert bool(each["spec"]["ingress"]) is (name in WITH_FIGURES)


def test_a_policy_is_made_where_it_has_an_effect() -> None:
    """It is about the pods of the agent, and says nothing of those on the host's network."""
    for name, make in manifests.names():
        documents = make()
        is_made = name != "no policy" and name not in ON_THE_HOSTS_NETWORK
        labels = manifests.daemonset(documents)["spec"]["template"]["metadata"]["labels"]
        found = [
            each["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
            for each in policies(documents)
        ]
        assert found == [True] * is_made, name


@pytest.mark.parametrize(
    ("variant", "readers"),
    [
        (
            "figures",
            {
                "namespaceSelector": {},
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
            },
        ),
        ("figures for a namespace", {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}),
    ],
)
def test_prometheus_alone_reads_the_figures(variant: str, readers: Document) -> None:
    (policy,) = policies(manifests.helm(*manifests.VARIANTS[variant]))
    assert policy["spec"]["ingress"] == [
        {"from": [readers], "ports": [{"port": "metrics", "protocol": "TCP"}]}
    ]


def test_no_rendering_has_a_secret() -> None:
    assert "Secret" not in {each["kind"] for _, make in manifests.names() for each in make()}
