"""One name, one thing: no two public classes of the rooms share a name, and what chooses is an enum."""

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest

import keyferry
import keyferry_plugins
from keyferry._core.word_enum import WordEnum

SOURCE = Path(keyferry.__file__).parent
PLUGINS = Path(keyferry_plugins.__file__).parent
# Names that stand for two classes on purpose, with the modules that have them.
SHARED_NAMES = {
    # Kubernetes has a type of this name in both groups, with the same fields.
    "ExecEnvVar": {"api.kubeconfig.v1", "api.kubeletconfig.v1"},
    # What is wrong in a document, and what is not well on a node: two subjects, one word.
    # The wire type of kuberc, and the entry of a policy that is made of it, which callers write too.
    "AllowlistEntry": {"api.kuberc.v1beta1", "invoke.policy"},
}
# Fields whose value selects what happens, by module and class.
CHOICES = {
    "_core.documents.Document": ("format",),
    "_core.reasons.Reason": ("stage",),
    "clusters.api_call.ApiProblem": ("kind",),
    "api.federation.v1alpha1.ExchangeCall": ("encode", "basic_encode"),
    "api.federation.v1alpha1.SubjectSettings": ("source",),
    "clusters.why.diagnosis.Diagnosis": ("stage",),
    "doctor.health.HealthLine": ("level",),
    "images.compare.PatternChange": ("change",),
    "images.compare.ProviderChange": ("change",),
    "images.config.refusals.Refusals": ("stage",),
    "images.credential.Source": ("kind",),
    "images.match.rules.MatchVerdict": ("rule",),
    "images.missing.MissingInput": ("input",),
    "images.provider.provision.Provision": ("outcome",),
    "kit.codes.catalogue.Check": ("severity",),
    "kit.lab.plugin_under_test.PluginUnderTest": ("kind",),
    "kit.report.Report": ("kind",),
    "kit.report.Result": ("status",),
    "kit.scaffold.install.Plugin": ("kind",),
    "lint.codes.catalogue.Code": ("severity",),
    "lint.fixes.corrections.Correction": ("change",),
    "lint.report.Finding": ("severity",),
    "lint.report.LintReport": ("kind",),
    "pulls.mirrors.endpoints.Endpoint": ("offer",),
    "pulls.mirrors.endpoints.Mirrors": ("runtime",),
    "pulls.puller.outcome.PullOutcome": ("action",),
    "pulls.records.access.Access": ("match",),
    "pulls.records.decision.Decision": ("rule",),
    "pulls.records.policy.PolicyVerdict": ("rule",),
    "show.junit.Case": ("outcome",),
    "show.sarif.SarifResult": ("severity",),
    "show.sarif.SarifRule": ("severity",),
    "workloads.objects.KubernetesObject": ("kind",),
    "workloads.pods.PodContainer": ("role",),
    "workloads.targets.Target": ("kind",),
}


def public_classes(source: Path) -> dict[str, set[str]]:
    """The modules that define a class of each public name, nested classes and aliases left out."""
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(module)
    return found


def repeated(found: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The names that more than one module gives to a class."""
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_public_classes_have_one_name() -> None:
    """Whoever reads a name in one room can look for it, and finds one class."""
    assert repeated(public_classes(SOURCE)) == SHARED_NAMES


@pytest.mark.parametrize("cloud", sorted(path.name for path in PLUGINS.iterdir() if path.is_dir()))
def test_no_two_classes_of_a_cloud_have_one_name(cloud: str) -> None:
    """Clouds do not know each other, so each may have a Token or Options of its own."""
    assert repeated(public_classes(PLUGINS / cloud)) == {}


def test_a_repeated_name_is_found(tmp_path: Path) -> None:
    """Private and nested classes do not count."""
    (tmp_path / "room").mkdir()
    (tmp_path / "a.py").write_text("class Same: ...\nclass _Own: ...\nclass Once: ...\n")
    (tmp_path / "room" / "b.py").write_text("class Same:\n    class Once: ...\nclass _Own: ...\n")
    assert repeated(public_classes(tmp_path)) == {"Same": {"a", "room.b"}}


@pytest.mark.parametrize("name", CHOICES)
def test_what_chooses_is_an_enum(name: str) -> None:
    """A closed set of words is a type, so that a misspelt one does not pass the type checker."""
    module, _, cls = name.rpartition(".")
    hints = getattr(importlib.import_module(f"keyferry.{module}"), cls).__annotations__
    for field in CHOICES[name]:
        types = getattr(hints[field], "__args__", (hints[field],))
        assert all(issubclass(each, WordEnum | type(None)) for each in types), field
