"""Lint a provider file: which plugin serves the ClusterProfiles of which provider (KEP-5339).

Controllers read it once when they start, and use it for each profile. The rules for plugins are those of kubeconfigs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from keyferry._core.documents import is_json
from keyferry._core.gotext import quote
from keyferry._core.paths import Path
from keyferry._core.severity import Severity
from keyferry.api.clusterinventory.v1alpha1 import PluginProvider, PluginProviders
from keyferry.api.codec import Refused, describe_empty, read_typed
from keyferry.clusters.kubeconfig.resolve import judge_api_version
from keyferry.clusters.profile_access import ARGS_POLICY, ENV_POLICY, IGNORE, POLICIES
from keyferry.errors import Kind
from keyferry.lint.code import Code, Finding, Rules, finding_of
from keyferry.lint.kinds.kubeconfig_entries import ExecEntry, exec_rule
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import NotingReader, SourceFile, find_unknown_fields, find_writers

_NEVER = "Never"

file_rule = Rules[PluginProviders]()
provider_rule = Rules[PluginProvider]()


KF801 = Code(
    "KF801",
    Severity.ERROR,
    "the provider file is not valid JSON",
    why="a controller does not start with it",
    fix="correct the syntax at the given position",
)
KF802 = Code(
    "KF802",
    Severity.ERROR,
    "the provider file is YAML",
    why="controllers read it as JSON alone and do not start with YAML; keyferry reads both",
    fix="write it as JSON",
)
KF803 = Code(
    "KF803",
    Severity.ERROR,
    "a value has the wrong type",
    why="nothing is converted, and a controller does not start with the file",
    fix="use the expected type",
)
KF850 = Code(
    "KF850",
    Severity.WARNING,
    "unknown field",
    why="it is ignored; a misspelled policy means Ignore",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF851 = Code(
    "KF851",
    Severity.WARNING,
    "a key is given more than once",
    why="controllers use the last one, and keyferry refuses the file",
    fix="keep one of them",
    of_name=True,
)
KF852 = Code(
    "KF852",
    Severity.WARNING,
    "other users can write the provider file",
    why="a user who can write it decides which programs run, and keyferry does not use it without --trust",
    fix="run chmod go-w on the file",
    on_this_machine=True,
)


def lint_profile_providers(source: SourceFile) -> LintReport:
    """Return all problems of a provider file."""
    writers = find_writers(KF852, source.path, "and choose which programs run")
    return make_report(FileKind.PROFILE_PROVIDERS, source, (*_check(source), *writers))


def _check(source: SourceFile) -> Iterator[Finding]:
    typed = read_typed(source.path, source.data, source.read, syntax_code=KF801.code, type_code=KF803.code)
    if isinstance(typed, Refused):
        yield finding_of(typed.problem)
        return
    document, reader = typed.document, NotingReader()
    providers = PluginProviders.from_document(document.value, reader)
    for finding in (*_check_form(source, reader), *file_rule.check(providers)):
        yield finding.placed(source.path, document)
    for index, provider in enumerate(providers.providers):
        inside: Path = ("providers", index)
        for finding in provider_rule.check(provider):
            yield finding.placed(source.path, document, inside)
        if provider.exec_config is not None:
            entry = ExecEntry(written=provider.exec_config, anchored=provider.exec_config)
            for finding in exec_rule.check(entry):
                yield finding.placed(source.path, document, (*inside, "execConfig"))


def _check_form(source: SourceFile, reader: NotingReader) -> Iterator[Finding]:
    if not is_json(source.data):
        has = "is YAML" if source.document and source.document.value else describe_empty(source.data)
        yield KF802.at(message=f"the file {has.removeprefix('the file ')}, and controllers read JSON alone")
    yield from find_unknown_fields(KF850, reader, "it is ignored")
    for each in source.document.duplicates if source.document else ():
        message = f"the key is given more than once, first in line {each.first.line}; keep one of them"
        yield KF851.at(*each.path, message=message)
    for at, problem in reader.problems:
        if problem.kind is not Kind.STRICT:
            yield KF803.at(*at, message=problem.message, kubernetes_text=problem.kubernetes_text)


KF853 = Code(
    "KF853",
    Severity.WARNING,
    "two providers have the same name",
    why="the first one of the file is used for each profile, and the other never",
    fix="rename or remove one of them",
)


@file_rule(KF853)
def names(providers: PluginProviders) -> Iterator[Finding]:
    """Providers that are never used."""
    seen: dict[str, int] = {}
    for index, provider in enumerate(providers.providers):
        first = seen.setdefault(provider.name, index)
        if first != index:
            message = f"{provider.name!r} is also the name of providers[{first}], so this one is never used"
            yield KF853.at("providers", index, "name", message=message)


KF810 = Code(
    "KF810",
    Severity.ERROR,
    "a policy is unknown",
    why="each profile that has such an extension is refused",
    fix="use one of the policies in the message",
)
KF860 = Code(
    "KF860",
    Severity.INFO,
    "profiles may change the plugin's arguments or variables",
    why="whoever may write a ClusterProfile then decides what a program of this machine is started with",
    fix="nothing, if only those write profiles who may decide this; else set Ignore",
)


@provider_rule(KF810, KF860)
def policies(provider: PluginProvider) -> Iterator[Finding]:
    """What profiles may add."""
    for name, found in ((ARGS_POLICY, provider.args_policy), (ENV_POLICY, provider.env_policy)):
        if found and found not in POLICIES[name]:
            expected = ", ".join(map(repr, POLICIES[name]))
            text = f"unsupported {name[0].upper()}{name[1:]}: {quote(found)}"
            yield KF810.at(name, message=f"found {found!r}, expected {expected}", kubernetes_text=text)
        elif found not in ("", IGNORE):
            what = "arguments" if name == ARGS_POLICY else "variables"
            message = f"{found!r} lets whoever writes a ClusterProfile choose {what} of the plugin"
            yield KF860.at(name, message=message)


KF811 = Code(
    "KF811",
    Severity.ERROR,
    "a provider has no execConfig, or no command in it",
    why="there is nothing to run for its profiles",
    fix="set execConfig.command",
)
KF812 = Code(
    "KF812",
    Severity.ERROR,
    "apiVersion is not a version of the plugin protocol",
    why="no request is sent to the clusters of this provider",
    fix="set client.authentication.k8s.io/v1 if the plugin supports it",
)
KF854 = Code(
    "KF854",
    Severity.WARNING,
    "a provider has no name",
    why="profiles choose their provider by its name",
    fix="set the name that the accessProviders of the profiles have",
)
KF855 = Code(
    "KF855",
    Severity.WARNING,
    "the command is a relative path",
    why="it starts at the folder in which the controller runs, where somebody else may put a program",
    fix="set an absolute path, or a name to search in PATH",
)
KF861 = Code(
    "KF861",
    Severity.INFO,
    "interactiveMode has no effect",
    why="the plugin of a provider file never gets a terminal",
    fix="set Never, or remove the field",
)


@provider_rule(KF811, KF812, KF854, KF855, KF861)
def plugin(provider: PluginProvider) -> Iterator[Finding]:
    """A plugin that cannot be run, or not as it is written."""
    if not provider.name:
        yield KF854.at(message="the provider has no name, so no profile uses it")
    config = provider.exec_config
    if config is None:
        text = f"no exec config found for provider {quote(provider.name)}"
        yield KF811.at(message="the provider has no execConfig, which names its plugin", kubernetes_text=text)
        return
    if not config.command:
        yield KF811.at("execConfig", message="the execConfig has no command")
    elif os.sep in config.command and not os.path.isabs(config.command):
        message = (
            f"{config.command!r} starts at the folder in which the controller runs; use an absolute path"
        )
        yield KF855.at("execConfig", "command", message=message)
    problem = judge_api_version(config)
    if problem is not None:
        message, text = problem.message, problem.kubernetes_text
        yield KF812.at("execConfig", "apiVersion", message=message, kubernetes_text=text)
    if config.interactive_mode not in ("", _NEVER):
        message = f"{config.interactive_mode!r} has no effect: the plugin never gets a terminal"
        yield KF861.at("execConfig", "interactiveMode", message=message)
