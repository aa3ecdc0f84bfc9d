"""Every document on a page is read as what it is: by lint, by Kubernetes' schemas, or by the tool it is for."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyferry.api.agentconfig.v1alpha1 import DURATIONS, NUMBERS, SWITCHES, TEXTS
from support.commands import run_in_process
from support.manifests import problems, versions
from support.pages import ROOT, Block, all_blocks, blocks
from support.parts import need

Document = Any
LANGUAGES = ("json", "toml", "yaml")
FOUND = [block for block in all_blocks() if block.language in LANGUAGES]
# What lint says of examples that are meant so.
MEANT = {
    "docs/agent.md": {"KF552"},  # the rule for every registry
    "docs/clusters.md": {
        "KF360",
        "KF363",
    },  # what the page tells beside it: a digest, and a name without a path
    "docs/node.md": {"KF151"},  # what the page then corrects
}
# What is only so because the example is no whole file: it has no contexts.
PARTIAL = {"KF254"}
PROVIDER = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: example
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 10m
"""


def lint(text: str, folder: Path) -> set[str]:
    """The codes of all that lint finds in a file, which is for another machine."""
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    report = json.loads(run_in_process("lint", str(path), "--elsewhere", "-o", "json").stdout)
    return {each["code"] for each in report["findings"]}


def test_the_example_of_the_agents_settings_is_right(tmp_path: Path) -> None:
    """It is a part of a generated page, whose documents are otherwise not read here."""
    text = (ROOT / "tools" / "reference" / "agent-config.yaml").read_text(encoding="utf-8")
    assert lint(text, tmp_path) == set()
    settings = {*TEXTS, *DURATIONS, *NUMBERS, *SWITCHES, "access", "manage"} - {"socketGroup"}
    assert set(yaml.safe_load(text)) == {"apiVersion", "kind", *settings}


def as_provider(block: Block, document: Document) -> str | None:
    """The example as a whole provider config: it, an entry, or fields that are added to the page's first entry."""
    if isinstance(document, list) and "matchImages" in document[0]:
        return f"{PROVIDER.partition('- name')[0]}{block.text}"
    if not isinstance(document, dict) or "kind" in document:
        return None
    if set(document) == {"matchImages"}:
        return PROVIDER + textwrap.indent(block.text, "  ")
    if not {"tokenAttributes", "args"} & set(document):
        return None
    whole = next(yaml.safe_load(each.text) for each in blocks(block.page, "yaml"))
    whole["providers"][0] |= document
    return yaml.safe_dump(whole)


def as_pod(document: Document) -> Document | None:
    """The example as a pod: the spec of one, or the fields of its container."""
    spec = None
    if "containers" in document:
        spec = document
    elif "readinessProbe" in document:
        spec = {"containers": [{"name": "example", **document}]}
    return spec and {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "example"}, "spec": spec}


def check_lint(block: Block, document: Document, folder: Path) -> bool:
    kinds = (
        "CredentialProviderConfig",
        "AgentConfig",
        "FederationConfig",
        "Preference",
        "KubeletConfiguration",
    )
    text = as_provider(block, document)
    if isinstance(document, dict) and document.get("kind") in kinds:
        text = block.text
    elif isinstance(document, dict) and "users" in document:
        text = f"apiVersion: v1\nkind: Config\n{block.text}"
    if text is not None:
        assert lint(text, folder) - PARTIAL <= MEANT.get(block.page, set())
    return text is not None


def check_profile_providers(_block: Block, document: Document, folder: Path) -> bool:
    if not isinstance(document, dict) or set(document) != {"providers"}:
        return False
    # What profiles may add is what the page is about; controllers read JSON alone.
    return lint(json.dumps(document), folder) <= {"KF860"}


def check_hook(_block: Block, document: Document, _folder: Path) -> bool:
    """The hook of pre-commit that a page names exists, and keyferry has its options."""
    if not isinstance(document, dict) or "repos" not in document:
        return False
    (known,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (hook,) = document["repos"][0]["hooks"]
    assert hook["id"] == known["id"]
    words = [*known["entry"].split()[1:], *hook["args"], os.devnull]
    assert run_in_process(*words).returncode in (0, 1)
    return True


def check_kubernetes(block: Block, document: Document, _folder: Path) -> bool:
    if not isinstance(document, dict):
        return False
    pod = as_pod(document)
    objects = [document] if block.language != "yaml" else list(yaml.safe_load_all(block.text))
    objects = [pod] if pod else objects
    groups = ("v1", "apps/", "rbac.authorization.k8s.io/")
    if not all(
        isinstance(each, dict) and str(each.get("apiVersion", "")).startswith(groups) for each in objects
    ):
        return False
    for each in objects:
        assert problems(each, versions()[-1]) == []
    return True


def check_prometheus(block: Block, document: Document, folder: Path) -> bool:
    if "scrape_configs" not in document:
        return False
    # Debian's build knows no Kubernetes; the rest of the job is checked.
    (folder / "prometheus.yml").write_text(
        block.text.replace("kubernetes_sd_configs:\n  - role: pod\n", "static_configs: []\n")
    )
    command = [need("promtool"), "check", "config", str(folder / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def check_others(_block: Block, document: Document, _folder: Path) -> bool:
    """Documents of which a test of the page does more: they are at least what they say they are."""
    if not isinstance(document, dict):
        # Arguments that take the place of others in the page's config.
        return all(str(each).startswith("--") for each in document)
    if document.get("kind") == "Kustomization":
        return bool(document["resources"] and document["images"])
    if "jobs" in document:
        return all(job["runs-on"] and job["steps"] for job in document["jobs"].values())
    return bool({"host", "document"} & set(document))


Check = Callable[[Block, Document, Path], bool]
CHECKS: tuple[Check, ...] = (
    check_lint,
    check_profile_providers,
    check_hook,
    check_kubernetes,
    check_prometheus,
    check_others,
)


def read(block: Block) -> Document:
    """The document; of several in one block, the first."""
    if block.language == "toml":
        return tomllib.loads(block.text)
    if block.language == "json":
        return json.loads(block.text if block.text.startswith(("{", "[")) else f"{{{block.text}}}")
    return next(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("block", FOUND, ids=[block.place for block in FOUND])
def test_a_document_is_read_as_what_it_is(block: Block, tmp_path: Path) -> None:
    document = read(block)
    assert any(check(block, document, tmp_path) for check in CHECKS), "nothing knows what this is"


@pytest.mark.parametrize("page", MEANT)
def test_what_is_meant_is_still_found(page: str, tmp_path: Path) -> None:
    whole = next(each for each in blocks(page, "yaml") if "\nkind: " in each.text)
    assert lint(whole.text, tmp_path) == MEANT[page]
