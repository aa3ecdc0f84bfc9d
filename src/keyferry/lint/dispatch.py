"""Recognise a file and call its linter."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from keyferry._core.documents import read_yaml
from keyferry._core.values import replace
from keyferry.api.agentconfig.v1alpha1 import KIND as AGENT_CONFIG
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.api.federation.v1alpha1 import KIND as FEDERATION
from keyferry.api.kubeconfig.v1 import KIND as CONFIG
from keyferry.api.kubeconfig.v1 import SECTIONS
from keyferry.api.kuberc.v1beta1 import API_VERSIONS as KUBERC_VERSIONS
from keyferry.api.kuberc.v1beta1 import KIND as PREFERENCE
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.images.config.read import CONFIG_KIND, read_config
from keyferry.images.node.settings import KUBELET_CONFIG_KIND
from keyferry.lint.agent_config import lint_agent_config
from keyferry.lint.federation.config import lint_federation
from keyferry.lint.federation.decode import FederationFile, decode_federation, kubelet_audiences
from keyferry.lint.kubeconfig.config import lint_kubeconfig
from keyferry.lint.kubelet_config import lint_kubelet_config
from keyferry.lint.kuberc import lint_kuberc
from keyferry.lint.nested import add_nested, find_nested
from keyferry.lint.providers.config import lint
from keyferry.lint.records.folder import KINDS as RECORD_KINDS
from keyferry.lint.records.folder import is_records_folder, lint_record_file, lint_records
from keyferry.lint.report import FileKind, LintReport
from keyferry.lint.source import SourceFile
from keyferry.lint.versions import LATEST

__all__ = ["MOST_BYTES", "find_audiences", "find_federations", "lint_any", "read_once", "recognise"]

# A config of thousands of providers has a tenth of it, and the time for a line grows faster than its length.
MOST_BYTES = 1 << 24

_NO_GATES: Mapping[str, bool] = MappingProxyType({})
# Patterns that recognise a file that is not valid YAML.
_KIND = re.compile(rb"""(?m)^[ \t{]*["']?kind["']?[ \t]*:[ \t]*["']?(\w+)""")
_SECTION = re.compile(rb"""(?m)^["']?(?:clusters|users|contexts|current-context)["']?[ \t]*:""")
_KUBECONFIG_FIELDS = frozenset({"current-context", *SECTIONS})
_PREFERENCE = re.compile(
    rb"""(?m)^[ \t{]*["']?(?:apiVersion["']?[ \t]*:[ \t]*["']?kubectl\.config\.k8s\.io/"""
    rb"""|credentialPlugin(?:Policy|Allowlist))"""
)
_KUBERC = "kuberc"
# The files whose kind field decides alone.
_FILE_KINDS = {
    AGENT_CONFIG: FileKind.AGENT_CONFIG,
    CONFIG: FileKind.KUBECONFIG,
    FEDERATION: FileKind.FEDERATION,
    KUBELET_CONFIG_KIND: FileKind.KUBELET_CONFIG,
    **dict.fromkeys(RECORD_KINDS, FileKind.PULL_RECORD),
}
_DOCUMENT = re.compile(rb"^---", re.MULTILINE)

_LINTERS: dict[FileKind, Callable[[str, bytes], LintReport]] = {
    FileKind.AGENT_CONFIG: lint_agent_config,
    FileKind.FEDERATION: lint_federation,
    FileKind.KUBECONFIG: lint_kubeconfig,
    FileKind.KUBERC: lint_kuberc,
}


def lint_any(
    path: str,
    *,
    data: bytes | None = None,
    bin_dir: str | None = None,
    kubernetes: str = LATEST,
    gates: Mapping[str, bool] = _NO_GATES,
    beside: tuple[FederationFile, ...] = (),
    is_read_by_kubelet: bool = False,
) -> LintReport:
    """Lint *path* by its kind; a file that cannot be recognised or read is linted as a provider config.

    *data* is the content of the file, if it was read already. *beside* are the federation configs that were given too.
    *is_read_by_kubelet* tells that it is a node's provider
    config, so that a document with such a config inside is refused.
    """
    if is_records_folder(path):
        return lint_records(path)
    kept = data
    if data is None:
        data = _read(path)
        # A pipe cannot be read again.
        kept = None if not data or _is_regular(path) else data
    kind = FileKind.PROVIDERS if data is None else recognise(data, os.path.basename(path))
    if kind is FileKind.KUBELET_CONFIG and is_read_by_kubelet:
        kind = FileKind.PROVIDERS  # the kubelet refuses it in the place of a provider config
    if data is not None and kind is FileKind.PULL_RECORD:
        return lint_record_file(path, data)  # without the source: a record is never shown
    if data is not None and kind is FileKind.KUBELET_CONFIG:
        report = lint_kubelet_config(path, data, kubernetes, gates)
        return replace(report, sources=(SourceFile(path=path, data=data),))
    if data is not None and kind in _LINTERS:
        return replace(_LINTERS[kind](path, data), sources=(SourceFile(path=path, data=data),))
    report = lint(path, data=kept, bin_dir=bin_dir, kubernetes=kubernetes, gates=gates, beside=beside)

    def lint_inside(inner: bytes) -> LintReport:
        return lint(path, data=inner, bin_dir=bin_dir, kubernetes=kubernetes, gates=gates, beside=beside)

    if data is None:
        return report
    linters = {CONFIG_KIND: lint_inside, FEDERATION: lambda inner: _lint_inner_federation(path, inner)}
    return add_nested(report, data, linters, is_read_by_kubelet=is_read_by_kubelet)


def _lint_inner_federation(path: str, data: bytes) -> LintReport:
    """Lint a FederationConfig inside *path*; what is found of the file itself is not about the config."""
    report = lint_federation(path, data)
    return replace(report, findings=tuple(each for each in report.findings if each.line is not None))


def find_federations(paths: Iterable[str]) -> Iterator[FederationFile]:
    """Yield the federation configs among *paths* and inside them; only regular files, as lint reads them again."""
    for path in paths:
        data = _read(path) if _is_regular(path) else None
        # Few files are, and a large kubeconfig takes long to parse.
        if data is None or FEDERATION.encode() not in data:
            continue
        kind = recognise(data, os.path.basename(path))
        if kind is FileKind.FEDERATION:
            yield decode_federation(path, data)
        elif kind is FileKind.PROVIDERS:
            inside = (each for each in find_nested(data) if each.kind == FEDERATION)
            yield from (decode_federation(each.name, each.data) for each in inside)


def find_audiences(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the audiences for which kubelets request tokens by the provider and federation configs in *paths*."""
    found: dict[str, None] = {}
    for path in paths:
        data = _read(path)
        kind = FileKind.PROVIDERS if data is None else recognise(data, os.path.basename(path))
        if data is not None and kind is FileKind.FEDERATION:
            found |= dict.fromkeys(_federation_audiences(path, data))
        elif kind is FileKind.PROVIDERS:
            found |= dict.fromkeys(_provider_audiences(path, data))
            for nested in find_nested(data or b""):
                found |= dict.fromkeys(_AUDIENCES[nested.kind](path, nested.data))
    return tuple(filter(None, found))


def _provider_audiences(path: str, data: bytes | None) -> Iterator[str]:
    for provider in read_config(path, data).providers:
        if provider.token_attributes is not None:
            yield provider.token_attributes.service_account_token_audience


def _federation_audiences(path: str, data: bytes) -> tuple[str, ...]:
    return kubelet_audiences(decode_federation(path, data).config)


_AUDIENCES: dict[str, Callable[[str, bytes], Iterable[str]]] = {
    CONFIG_KIND: _provider_audiences,
    FEDERATION: _federation_audiences,
}


def read_once(path: str) -> bytes | None:
    """Return the content of something that can be read only once, such as a pipe; None for other paths.

    Raise EnvironmentProblem if it, or a file, has more than MOST_BYTES.
    """
    if os.path.isdir(path):
        return None
    if _is_regular(path):
        size, data = os.path.getsize(path) if os.path.exists(path) else 0, None
    else:
        data = _read(path)
        size = len(data or b"")
    if size > MOST_BYTES:
        raise EnvironmentProblem(f"{path} is not linted: it has more than {MOST_BYTES >> 20} MiB")
    return data


def recognise(data: bytes, name: str = "") -> FileKind:
    """Return the kind of a file; one that has no known kind is taken for a provider config.

    *name* is the name of the file: one that is called ``kuberc`` is read as a kuberc by kubectl, whatever is in it.
    """
    if name == _KUBERC:
        return FileKind.KUBERC
    value: object
    try:
        value = read_yaml(data).value
        version, kind = interpret(value)
    except (DocumentError, WrongTypeError):
        return _guess(data)
    if kind in _FILE_KINDS:
        return _FILE_KINDS[kind]
    # A kuberc may be any document of its file.
    if (
        kind == PREFERENCE
        or version in KUBERC_VERSIONS
        or (_DOCUMENT.search(data) and _guess_kind(data) == PREFERENCE)
    ):
        return FileKind.KUBERC
    is_kubeconfig = not kind and isinstance(value, dict) and not _KUBECONFIG_FIELDS.isdisjoint(value)
    return FileKind.KUBECONFIG if is_kubeconfig else FileKind.PROVIDERS


def _guess(data: bytes) -> FileKind:
    kind = _guess_kind(data)
    if kind != CONFIG and _PREFERENCE.search(data):
        return FileKind.KUBERC
    if kind == CONFIG or (not kind and _SECTION.search(data)):
        return FileKind.KUBECONFIG
    if kind in _FILE_KINDS:
        return _FILE_KINDS[kind]
    return FileKind.KUBERC if kind == PREFERENCE else FileKind.PROVIDERS


def _guess_kind(data: bytes) -> str:
    kinds = [match[1].decode("ascii", "replace") for match in _KIND.finditer(data)]
    known = [kind for kind in kinds if kind in (PREFERENCE, *_FILE_KINDS)]
    return (known or kinds or [""])[0]


def _read(path: str) -> bytes | None:
    """Return the bytes of a file; None for a directory or an unreadable file, which the linter reports."""
    if os.path.isdir(path):
        return None
    try:
        with open(path, "rb") as stream:
            # One more than is linted, so that it is noticed.
            return stream.read(MOST_BYTES + 1)
    except (OSError, ValueError):
        return None


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True
