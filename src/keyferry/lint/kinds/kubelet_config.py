"""Lint a KubeletConfiguration: only the fields that affect pulls are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from keyferry._core.documents import Document
from keyferry._core.severity import Severity
from keyferry._core.values import Value, replace
from keyferry.api.codec import Refused, describe_empty, read_typed
from keyferry.images.node.settings import (
    KUBELET_CONFIG_API_VERSION,
    KUBELET_CONFIG_KIND,
    UNKNOWN_FIELDS,
    describe_unknown_field,
)
from keyferry.lint.code import Code, Finding, Rules, finding_of
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import SourceFile
from keyferry.lint.versions import LATEST, MAX_PARALLEL_PULLS, panics_beyond, rules_for

_PARALLEL_PULLS = "maxParallelImagePulls"


class _Kubelet(Value):
    """A KubeletConfiguration, and the kubelet that reads it: its version, and the feature gates of its flags."""

    document: Document
    kubernetes: str
    gates: Mapping[str, bool]


kubelet_rule = Rules[_Kubelet]()


KF701 = Code(
    "KF701",
    Severity.ERROR,
    "the kubelet's config is not valid YAML or JSON",
    why="the kubelet does not start with it",
    fix="correct the syntax at the given position",
)
KF702 = Code(
    "KF702",
    Severity.ERROR,
    "the file is not a KubeletConfiguration of a known version",
    why="only KubeletConfiguration of kubelet.config.k8s.io/v1beta1 is read",
    fix="correct apiVersion and kind",
)


def lint_kubelet_config(
    source: SourceFile, kubernetes: str = LATEST, gates: Mapping[str, bool] = MappingProxyType({})
) -> LintReport:
    """Return the problems of a KubeletConfiguration or drop-in.

    *gates* are the feature gates of the kubelet's flags, which override those of the file.
    """
    report = make_report(FileKind.KUBELET_CONFIG, source, _check(source, kubernetes, gates))
    return replace(report, kubernetes=rules_for(kubernetes, {}).version)


def _check(source: SourceFile, kubernetes: str, gates: Mapping[str, bool]) -> Iterator[Finding]:
    read = read_typed(source.path, source.data, source.read, syntax_code=KF701.code, type_code=KF702.code)
    if isinstance(read, Refused):
        yield finding_of(read.problem)
        return
    document = read.document
    if (read.api_version, read.kind) != (KUBELET_CONFIG_API_VERSION, KUBELET_CONFIG_KIND):
        found = f"found apiVersion {read.api_version!r} and kind {read.kind!r}"
        if document.value is None:
            found = describe_empty(source.data)
        expected = f"expected {KUBELET_CONFIG_API_VERSION!r} and {KUBELET_CONFIG_KIND!r}"
        yield KF702.at(message=f"{found}, {expected}").placed(source.path, document)
        return
    for finding in kubelet_rule.check(_Kubelet(document=document, kubernetes=kubernetes, gates=gates)):
        yield finding.placed(source.path, document)


KF710 = Code(
    "KF710",
    Severity.ERROR,
    "maxParallelImagePulls is above 31",
    why=(
        "a kubelet of 1.34 to 1.36 that keeps pull records has 31 locks for them at most and counts more: it panics "
        "at the first image that falls to a missing one (kubernetes#138937)"
    ),
    fix="set 31 or less, or upgrade to a version with the correction",
    kubernetes="1.34 to 1.36; the gate is off by default in 1.34",
)


@kubelet_rule(KF710)
def parallel_pulls(kubelet: _Kubelet) -> Iterator[Finding]:
    """So many pulls at once that the kubelet panics."""
    fields = kubelet.document.value if isinstance(kubelet.document.value, dict) else {}
    found, own = fields.get(_PARALLEL_PULLS), fields.get("featureGates")
    if type(found) is not int or found <= MAX_PARALLEL_PULLS:
        return
    if panics_beyond(kubelet.kubernetes, {**(own if isinstance(own, dict) else {}), **kubelet.gates}):
        yield KF710.at(_PARALLEL_PULLS, message=describe_panic(found))


def describe_panic(found: int) -> str:
    """Return what happens with this ``maxParallelImagePulls``, and the cure."""
    return (
        f"found {found}: a kubelet of 1.34 to 1.36 that keeps pull records panics above {MAX_PARALLEL_PULLS} "
        f"(kubernetes#138937); set {MAX_PARALLEL_PULLS} or less, or upgrade the kubelet"
    )


KF750 = Code(
    "KF750",
    Severity.WARNING,
    "a field that no version of Kubernetes has names the provider config or the bin dir",
    why=(
        "the kubelet logs that it does not know the field, ignores it and runs without these providers; only its "
        "flags name them"
    ),
    fix=(
        "remove the field and set the kubelet's flags --image-credential-provider-config and "
        "--image-credential-provider-bin-dir"
    ),
    of_name=True,
)


@kubelet_rule(KF750)
def unknown_fields(kubelet: _Kubelet) -> Iterator[Finding]:
    """A field that is taken for the kubelet's flag."""
    for name in UNKNOWN_FIELDS:
        if (name,) in kubelet.document.positions:
            yield KF750.at(name, message=describe_unknown_field(name))
