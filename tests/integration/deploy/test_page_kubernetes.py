"""What the page about Kubernetes shows can be rendered, and its tables are those of the files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from support import manifests
from support.manifests import CHART, DEPLOY, NAMESPACE, OVERLAYS, PROJECT, run_helm

PAGE = (PROJECT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
WORDS = {"REGISTRY": "registry.example", "NODE": "node-1", "PRIVATE_IMAGE": "registry.example/app"}
IMAGE = "image.repository=registry.example/keyferry"


def blocks(language: str) -> list[str]:
    """The examples of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[list[str]]:
    """The command lines of a program on the page, with values for its words in capitals."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    texts = [re.sub(r"\b[A-Z_]{4,}\b", lambda found: WORDS[found[0]], line) for line in lines]
    return [shlex.split(text) for text in texts if text.startswith(f"{program} ")]


def test_every_command_of_helm_renders() -> None:
    options: list[str] = []
    verbs, selectors, names = [], [], []
    for _, verb, *words in commands("helm"):
        verbs.append(verb)
        if verb == "uninstall":
            continue
        name, chart, *rest = words
        assert (name, chart, rest[:2]) == ("keyferry", str(CHART.relative_to(PROJECT)), ["-n", NAMESPACE])
        given = [str(PROJECT / each) if each.startswith("deploy/") else each for each in rest[2:]]
        is_added = "--reuse-values" in given
        options = [*(options if is_added else ()), *(each for each in given if each != "--reuse-values")]
        spec = manifests.pod_spec(manifests.helm(*options))
        selectors.append(spec["nodeSelector"].get("keyferry"))
        names += [each["name"] for each in spec["containers"]]
        assert {each["image"] for each in spec["containers"]} == {"registry.example/keyferry:0.1.0"}
    assert verbs == ["install", "upgrade", "upgrade", "install", "upgrade", "uninstall"]
    assert selectors == ["first", None, None, None, None]
    assert names == ["agent", "agent", "agent", "agent", "wait"]


OWN_FOLDERS = (
    (*OVERLAYS["eks"], "--set", IMAGE),
    (*OVERLAYS["k3s"], "--set", IMAGE, "--set", "shim.inFrontOf=ecr-credential-provider"),
)


def own_folder(text: str, *components: str) -> dict[str, object]:
    """A kustomization of the page, and more components; its paths are those from a folder beside deploy."""
    assert text.startswith("# my-cluster/kustomization.yaml\n")
    document = yaml.safe_load(text)
    added = [*document.get("components", ()), *components]
    places = {"resources": document["resources"], "components": added}
    return {**document, **{key: [DEPLOY / each for each in paths] for key, paths in places.items()}}


def test_folders_of_ones_own_render_what_the_chart_does() -> None:
    uninstall = "../deploy/kustomize/components/uninstall"
    assert f"`{uninstall}`" in PAGE
    texts = blocks("yaml")
    folders = {f"install-{number}": own_folder(text) for number, text in enumerate(texts)}
    folders |= {f"uninstall-{number}": own_folder(text, uninstall) for number, text in enumerate(texts)}
    built = manifests.build_together(folders)
    for number, options in enumerate(OWN_FOLDERS):
        assert manifests.by_name(built[f"install-{number}"]) == manifests.by_name(manifests.helm(*options))
        uninstalled = built[f"uninstall-{number}"]
        # A kustomization's own patches come after its components: the name of the plugin stays, and is not used.
        (installer,) = manifests.pod_spec(uninstalled)["initContainers"]
        installer["env"] = [each for each in installer["env"] if each["name"] != "KEYFERRY_PLUGIN"]
        assert not [word for word in installer["args"] if "KEYFERRY_PLUGIN" in word]
        expected = manifests.helm(*options, "--set", "uninstall=true")
        assert manifests.by_name(uninstalled) == manifests.by_name(expected)


def cells_of(pattern: str) -> list[str]:
    """The cells of the page's only row that begins with the pattern."""
    (row,) = (line for line in PAGE.splitlines() if re.search(rf"^\| {pattern}", line))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_tables_of_distributions_are_those_of_the_values() -> None:
    for name, options in OVERLAYS.items():
        distribution, _, shim, user, network = cells_of(rf"[^|]+\| (`eks`; )?`{name}`")
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
        if name != "eks-pod-network":
            assert network == ("the host's" if values["hostNetwork"] else "the pod's")


def test_every_value_and_component_on_the_page_exists() -> None:
    table = PAGE.partition("### Options")[2].partition("\n## ")[0]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE):
        for path in re.findall(r"`([^`]+)`", row[0]):
            found = values
            for part in path.split("."):
                assert part in found, path
                found = found[part]
        for component in re.findall(r"`([^`]+)`", row[1]):
            assert component in (*manifests.components(), "images"), component


def test_the_index_names_every_folder() -> None:
    rows = re.findall(r"^\| `(.+?)`", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(each.split("/")[0] for each in rows) == sorted(
        each.name for each in DEPLOY.iterdir() if each.is_dir()
    )
    assert all((DEPLOY / each).is_dir() for each in rows)


def test_the_chart_says_where_the_page_is() -> None:
    done = run_helm("show", "values", str(CHART))
    assert "docs/kubernetes.md" in done.stdout
