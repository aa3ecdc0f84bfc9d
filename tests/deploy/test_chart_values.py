"""Values of the chart: wrong ones get an error that names them, and the notes teach the next command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from keyferry.api.agentconfig.v1alpha1 import API_VERSION, DURATIONS, KIND, NUMBERS, SWITCHES, TEXTS
from support import manifests
from support.commands import run_in_process
from support.manifests import CHART, NAMESPACE, run_helm


def template(*options: str) -> tuple[int, str]:
    image = ("--set", f"image.repository={manifests.REPOSITORY}")
    done = run_helm("template", "keyferry", str(CHART), "--kube-version", "1.31.0", *image, *options)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("node.binDir=etc/eks", "node.binDir: Does not match pattern"),
        ("node.binDir=null", "binDir is required"),
        ("hostNetwork=maybe", "hostNetwork: Invalid type. Expected: boolean, given: string"),
        ("nodes.binDir=/x", "Additional property nodes is not allowed"),
        ("shim.infrontOf=x", "shim: Additional property infrontOf is not allowed"),
        ("shim.inFrontOf=../x", "shim.inFrontOf: Does not match pattern"),
        (
            "image.repository=",
            "image.repository is required, since keyferry has no public image: build one with",
        ),
        ("image.repository=,uninstall=true", "image.repository is required"),
        ("image.repository=registry.example/keyferry:v1", "image.repository: Does not match pattern"),
        ("fullnameOverride=Keyferry", "fullnameOverride: Does not match pattern"),
        ("networkPolicy.metricsFrom=null", "networkPolicy: metricsFrom is required"),
        ("networkPolicy.metricsFrom[0].pods=a", "metricsFrom.0: Additional property pods is not allowed"),
        ("image.digest=sha256:12", "image.digest: Does not match pattern"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy must be one of the following"),
        ("metrics.port=0", "metrics.port: Must be greater than or equal to 1"),
        ("maxSurge=0", "maxSurge: Must be greater than or equal to 1"),
        ("agentUser=65534", "agentUser: 65534 is every user that a user namespace does not know"),
        ("tokenAudiences={a,a}", "tokenAudiences: array items[0,1] must be unique"),
        ("node.readable[0].path=/etc/x", "type is required"),
        ("shim.inFrontOf=a,shim.beside=b", "shim: give inFrontOf or beside, not both"),
        ("shim.plugin=/x", "shim.plugin is for shim.beside"),
        ("shim.matchImages={a.example}", "shim.matchImages is for shim.beside"),
        ("shim.beside=a,shim.matchImages={a b}", "shim.matchImages.0: Does not match pattern"),
        (
            "shim.beside=a,shim.matchImages={a.example},node.providerConfig=/var/lib/kubelet/config.yaml",
            "where the kubelet has the volumes of all pods; add the entry yourself",
        ),
        ("agentUser=65532", "agentUser: without a shim the agent runs as root"),
        ("config.socket=/run/x.sock", "config.socket: the chart sets it; see node and metrics"),
        ("config.nonsense=1", "config: Additional property nonsense is not allowed"),
        ("config.page=0.0.0.0:7475", "config.page: Does not match pattern"),
        ("config.logLevel=loud", "config.logLevel must be one of the following"),
        ("config.connections=1", "config.connections: Must be greater than or equal to 8"),
        ("config.manage[0].users={1}", "config.manage.0: Additional property users is not allowed"),
        ("metrics.podMonitor.enabled=true", "metrics.podMonitor needs metrics.enabled"),
        (
            "hostNetwork=true,metrics.enabled=true,metrics.podMonitor.enabled=true",
            "the figures are on loopback (127.0.0.1), where Prometheus does not get them; metrics.address=$(POD_IP)",
        ),
        (
            "metrics.address=127.1.2.3,metrics.enabled=true,metrics.podMonitor.enabled=true",
            "metrics.podMonitor: the figures are on loopback (127.1.2.3)",
        ),
    ],
)
def test_wrong_values_are_named(setting: str, problem: str) -> None:
    code, message = template("--set", setting)
    assert code == 1
    assert problem in message


def test_a_policy_that_lets_everybody_in_is_no_accident(tmp_path: Path) -> None:
    """In a NetworkPolicy an empty list of who may connect means everybody."""
    file = tmp_path / "values.yaml"
    file.write_text("metrics: {enabled: true}\nnetworkPolicy: {metricsFrom: []}\n")
    code, message = template("-f", str(file))
    assert (code, "networkPolicy.metricsFrom: Array must have at least 1 items" in message) == (1, True)


def test_an_old_cluster_is_refused() -> None:
    done = run_helm("template", "keyferry", str(CHART), "--kube-version", "1.24.0")
    assert (done.returncode, "chart requires kubeVersion: >=1.25.0-0" in done.stderr) == (1, True)


@pytest.mark.parametrize("name", manifests.DISTRIBUTIONS)
def test_the_chart_has_nothing_to_complain_about(name: str) -> None:
    done = run_helm("lint", "--strict", str(CHART), *manifests.DISTRIBUTIONS[name])
    assert (done.returncode, "1 chart(s) linted, 0 chart(s) failed" in done.stdout) == (0, True)
    findings = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert findings == ["[INFO] Chart.yaml: icon is recommended"]


def test_every_value_has_a_schema_and_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    # Every setting of the agent has a default of its own.
    del schema["properties"]["config"]["properties"]
    compare(schema, values, "values")


CONFIG_SCHEMA = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]
# For each kind of setting, values that the agent takes and values that it refuses; at the bounds that the schema has.
TRIED: dict[str, list[object]] = {
    **{name: ["1m", "30m5s", "1.5s", 5, "soon", "1", "-1s"] for name in DURATIONS},
    **{name: [True, False, "yes", 1] for name in SWITCHES},
    **{
        name: [found["minimum"], found["maximum"], found["minimum"] - 1, found["maximum"] + 1, "8", 8.5]
        for name, found in CONFIG_SCHEMA["properties"].items()
        if name in NUMBERS
    },
    **{
        name: [*found["enum"], "loud", 1]
        for name, found in CONFIG_SCHEMA["properties"].items()
        if "enum" in found and name not in ("apiVersion", "kind")
    },
    "socketMode": ["0660", "0666", "660", "0888", 432],
    "page": [
        "off",
        "127.0.0.1:7475",
        "[::1]:7475",
        "0.0.0.0:7475",
        "localhost:80",
        "127.0.0.1",
        "[::]:1",
        7475,
    ],
    "access": [
        [{"uids": [1], "registries": ["a.example"]}],
        [{"gids": [1], "everyRegistry": True}],
        [{"uids": [1, 2], "gids": [], "registries": ["a.example", "*.b.example"]}],
        [{"registries": ["a.example"]}],
        [{"uids": [], "everyRegistry": True}],
        [{"uids": [-1], "everyRegistry": True}],
        [{"uids": ["root"], "everyRegistry": True}],
        [{"uids": [1], "everyregistry": True}],
        {"uids": [1]},
    ],
    "manage": [[], [{"uids": [0]}], [{"gids": [27]}], [{}], [{"uids": [0], "everyRegistry": True}], "root"],
}


def test_the_config_has_the_settings_of_the_agent() -> None:
    """Those that the chart sets itself are refused by a template, which says so."""
    names = {"apiVersion", "kind", *TEXTS, *DURATIONS, *NUMBERS, *SWITCHES, "access", "manage"}
    assert set(CONFIG_SCHEMA["properties"]) == names
    assert CONFIG_SCHEMA["additionalProperties"] is False
    set_by_chart = {"apiVersion", "kind", "socket", "binDir", "providerConfig", "metrics"}
    assert set(TRIED) == names - set_by_chart


@pytest.mark.parametrize("name", TRIED)
def test_the_chart_takes_what_the_agent_takes(name: str, tmp_path: Path) -> None:
    """And refuses what the agent would not start with."""
    validator = jsonschema.Draft7Validator(CONFIG_SCHEMA)
    verdicts = set()
    for value in TRIED[name]:
        document = {"apiVersion": API_VERSION, "kind": KIND, name: value}
        (tmp_path / "agent.json").write_text(json.dumps(document))
        done = run_in_process("lint", str(tmp_path / "agent.json"), "--severity", "error", "--elsewhere")
        assert validator.is_valid({name: value}) is (done.returncode == 0), (value, done.stdout)
        verdicts.add(done.returncode)
    assert verdicts == {0, 1}


def test_every_value_is_explained_where_it_stands() -> None:
    """By a comment above it, or above what it is a part of; the chart's README has the same in a table."""
    table = (CHART / "README.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE))
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {name for name in leaves(values) if not is_explained(name, explained)} == set()


def leaves(value: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, each in value.items():
        if isinstance(each, dict) and each:
            yield from leaves(each, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def is_explained(name: str, explained: set[str]) -> bool:
    """Whether a value has a row, or is inside the default of one: a group of values does not explain each of them."""
    groups = {each for each in explained for other in explained if other.startswith(f"{each}.")}
    return any(name == each or name.startswith(f"{each}.") for each in explained - groups)


def compare(schema: dict[str, object], values: dict[str, object], path: str) -> None:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert schema["additionalProperties"] is False, path
    assert set(properties) - {"global"} == set(values), path
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in properties[name]:
            compare(properties[name], value, f"{path}.{name}")


SHOWN_NOTES = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: notes
data:
  text: |
{{ tpl (.Files.Get "NOTES.txt") . | indent 4 }}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart with its notes in an object too: helm shows notes only where it reaches a cluster."""
    copy = tmp_path / "keyferry"
    shutil.copytree(CHART, copy)
    (copy / "templates" / "NOTES.txt").rename(copy / "NOTES.txt")
    (copy / "templates" / "notes.yaml").write_text(SHOWN_NOTES)
    return copy


def notes(chart: Path, *options: str) -> str:
    words = ("template", "node-agent", str(chart), "--namespace", NAMESPACE, "--kube-version", "1.31.0")
    image = ("--set", f"image.repository={manifests.REPOSITORY}")
    done = run_helm(*words, "--show-only", "templates/notes.yaml", *image, *options)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["data"]["text"])


def test_the_notes_teach_the_next_command(chart: Path) -> None:
    text = notes(chart)
    assert "kubectl -n kube-system rollout status daemonset/node-agent-keyferry" in text
    assert "kubectl -n kube-system exec daemonset/node-agent-keyferry -- keyferry agent status" in text
    assert "--set shim.inFrontOf=PLUGIN" in text
    assert "/etc/kubernetes/credential-provider/bin" in text
    text = notes(chart, *manifests.DISTRIBUTIONS["eks"])
    assert "the shim in front of ecr-credential-provider from its next pull on" in text
    assert "helm upgrade node-agent CHART -n kube-system --reuse-values --set uninstall=true" in text
    assert "add a provider mine to the kubelet's config" in notes(chart, "--set", "shim.beside=mine")
    added = notes(chart, "--set", "shim.beside=mine,shim.matchImages={a.example}")
    assert "The provider mine is added to the kubelet's config" in added
    assert "from its next restart on" in added
    assert "helm uninstall node-agent -n kube-system" in notes(chart, "--set", "uninstall=true")


def test_the_notes_say_how_to_open_a_page_that_is_on(chart: Path) -> None:
    text = notes(chart, "--set", "config.page=127.0.0.1:7480")
    assert "kubectl -n kube-system exec POD -- keyferry agent page" in text
    assert "kubectl -n kube-system port-forward POD 7480\n" in text
    assert "port-forward" not in notes(chart) + notes(chart, "--set", "config.page=off")
