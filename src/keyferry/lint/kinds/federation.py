"""Lint a FederationConfig: report why the plugin refuses it, and what is accepted but probably not intended."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from keyferry._core.documents import Document, DocumentFormat, read_document
from keyferry._core.paths import Path
from keyferry._core.severity import Severity
from keyferry._core.values import Value, field, replace
from keyferry.api.federation.rules import check_config, complete_rule, expand_parameter, is_cluster_audience
from keyferry.api.federation.templates import TemplateError, build_url
from keyferry.api.federation.v1alpha1 import (
    API_VERSION,
    KIND,
    ExchangeCall,
    FederationConfig,
    FederationRule,
    SubjectSource,
    read_config,
)
from keyferry.api.wire import Reader
from keyferry.errors import Detail, DocumentError, Kind, Problem
from keyferry.lint.code import Code, Finding, Rules
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.secrets import looks_secret
from keyferry.lint.source import SourceFile, find_later_document, who_writes

_REFUSED = "the plugin refuses the whole config, so no registry of it gets a login"
# Identities that have nothing in common; a pattern that allows all of them allows everything.
_STRANGERS = ("a", "Z9", "org+robot", "x/y", "a b", "évil", "-", "..", "other@example.com")


class FederationFile(Value):
    """A config, as far as it can be read, and the problems for which the plugin refuses it."""

    path: str
    data: bytes = field(repr=False)
    document: Document | None
    config: FederationConfig
    refusals: tuple[Finding, ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether the plugin can read it as it is."""
        return self.document is not None and self.document.format is DocumentFormat.JSON

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The refusals, for an error."""
        return tuple(each.as_problem() for each in self.refusals)


file_rule = Rules[FederationFile]()
federation_rule = Rules[FederationRule]()


def lint_federation(source: SourceFile) -> LintReport:
    """Return all problems of a FederationConfig."""
    file = decode_federation(source.path, source.data, source.read)
    findings = (*file.refusals, *find_doubts(file))
    # Kubernetes does not read this file.
    return make_report(
        FileKind.FEDERATION, source, (replace(finding, kubernetes_text="") for finding in findings)
    )


def find_doubts(file: FederationFile) -> Iterator[Finding]:
    """Yield what is accepted and probably not intended."""
    yield from file_rule.check(file)
    for number, rule in enumerate(file.config.rules):
        for finding in federation_rule.check(rule):
            yield finding.placed(file.path, file.document, ("rules", number))


# What the plugin refuses.

KF601 = Code(
    "KF601",
    Severity.ERROR,
    "the FederationConfig is not valid YAML or JSON",
    why=_REFUSED,
    fix="correct the syntax at the given position",
)
KF602 = Code(
    "KF602",
    Severity.ERROR,
    "the FederationConfig has another version or kind",
    why=f"the plugin reads kind {KIND} of {API_VERSION} only",
    fix=f"set 'apiVersion: {API_VERSION}' and 'kind: {KIND}'",
)
KF603 = Code(
    "KF603",
    Severity.ERROR,
    "unknown field",
    why=f"decoding is strict: {_REFUSED}",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF604 = Code(
    "KF604",
    Severity.ERROR,
    "a key is given more than once",
    why=f"decoding is strict: {_REFUSED}",
    fix="keep one of them",
    of_name=True,
)
KF605 = Code(
    "KF605",
    Severity.ERROR,
    "a value has the wrong type, or is not a duration",
    why=f"numbers and unquoted yes, no, on, off are not strings in YAML; {_REFUSED}",
    fix="put quotes around the value, or use the expected type",
)
KF606 = Code(
    "KF606",
    Severity.ERROR,
    "there are no rules",
    why=_REFUSED,
    fix="add a rule with registries, subject and preset",
)
KF607 = Code(
    "KF607",
    Severity.ERROR,
    "a registry is missing, invalid or in two rules",
    why="registries are compared with the image's host and port, to the letter; there are no patterns",
    fix="list each host once, in lower case, with its port if image names have it",
)
KF608 = Code(
    "KF608",
    Severity.ERROR,
    "a rule has no preset and no recipe, both, or an unknown preset",
    why=_REFUSED,
    fix="set preset to one of 'keyferry-federate --show-preset', or write calls and credentials",
)
KF609 = Code(
    "KF609",
    Severity.ERROR,
    "the subject's settings are incomplete or do not fit together",
    why="audience and issuer are compared with the token before it is sent anywhere",
    fix="set subject.audience and subject.issuer, and file or variable only for that source",
)
KF610 = Code(
    "KF610",
    Severity.ERROR,
    "the audience is the API server's own",
    why="whoever receives such a token can use it at the API server, with all permissions of the account",
    fix="choose an audience of the registry's own, such as its host name",
)
KF611 = Code(
    "KF611",
    Severity.ERROR,
    "a parameter is missing, unknown or invalid",
    why=f"a parameter is a text, or an object with annotation and pattern, file or env; {_REFUSED}",
    fix="'keyferry-federate --show-preset NAME' prints the parameters of a preset",
)
KF612 = Code(
    "KF612",
    Severity.ERROR,
    "a recipe does what is not allowed",
    why=(
        "which value may be used where is limited, so that neither an annotation nor a server's response decides where "
        "a token is sent"
    ),
    fix="see the table of places in docs/plugins/federation.md",
)
KF613 = Code(
    "KF613",
    Severity.ERROR,
    "cacheKeyType or caFile is invalid",
    why=(
        "a login for one image must not be used for others of the registry, and a relative path depends on the folder "
        "that the kubelet runs in"
    ),
    fix="set Registry or Image, or an absolute path",
)

_OF_RULES: Mapping[str, Code] = {
    "registries": KF607,
    "preset": KF608,
    "subject": KF609,
    "params": KF611,
    "calls": KF612,
    "credentials": KF612,
    "lifetime": KF612,
    "fromAnnotations": KF612,
    "cacheKeyType": KF613,
    "caFile": KF613,
}


def decode_federation(
    path: str, data: bytes, read: Callable[[bytes], Document] = read_document
) -> FederationFile:
    """Decode the content of *path* as strictly as the plugin."""
    try:
        document = read(data)
    except DocumentError as error:
        refusal = KF601.of_file(path, error.message, error.line, error.column)
        return FederationFile(
            path=path, data=data, document=None, config=FederationConfig(), refusals=(refusal,)
        )
    duplicates = tuple(each.path for each in document.duplicates)
    config, found = interpret_federation(document.value, duplicates)
    refusals = tuple(
        _code_of(at, problem, config)
        .at(*at, message=problem.message, detail=problem.detail)
        .placed(path, document)
        for at, problem in found
    )
    return FederationFile(path=path, data=data, document=document, config=config, refusals=refusals)


def interpret_federation(
    value: object, duplicates: tuple[Path, ...] = ()
) -> tuple[FederationConfig, list[tuple[Path, Problem]]]:
    """Return the config in a document and all of its problems; what only follows from another one is left out."""
    form, meaning = Reader(duplicates), Reader()
    config = read_config(value, form)
    check_config(config, meaning)
    causes = [path for path, _ in form.problems]
    # Not above or below a value that could not be read.
    own = [
        (path, problem)
        for path, problem in meaning.problems
        if not any(path[: len(cause)] == cause[: len(path)] for cause in causes)
    ]
    return config, [*form.problems, *own]


def _code_of(at: Path, problem: Problem, config: FederationConfig) -> Code:
    if problem.kind is Kind.STRICT:
        return KF604 if problem.detail is Detail.REPEATED_FIELD else KF603
    if problem.kind in (Kind.WRONG_TYPE, Kind.DURATION):
        return KF605
    if at[:1] != ("rules",):
        return KF602
    if len(at) == 1:
        return KF606
    if at[2:] == ("subject", "audience"):
        subject = complete_rule(config.rules[int(at[1])]).subject
        if subject.audience and is_cluster_audience(subject.audience, subject.issuer):
            return KF610
    return _OF_RULES.get(str(at[2]), KF608) if len(at) > 2 else KF608


def kubelet_audiences(config: FederationConfig) -> tuple[str, ...]:
    """Return the audiences for which a kubelet requests the tokens that the rules take, each once."""
    subjects = (complete_rule(rule).subject for rule in config.rules)
    taken = (each.audience for each in subjects if each.source is SubjectSource.KUBELET and each.audience)
    return tuple(dict.fromkeys(taken))


# What is accepted and probably not intended.

KF656 = Code(
    "KF656",
    Severity.WARNING,
    "other users can write the FederationConfig",
    why="they could choose where tokens are sent, so the plugin refuses the file",
    fix="make root its owner, and run chmod go-w on it",
    on_this_machine=True,
)


@file_rule(KF656)
def writers(file: FederationFile) -> Iterator[Finding]:
    """Others who can change the file, by the plugin's own rule; standard input is no file that it reads."""
    try:
        status = os.stat(file.path)
    except (OSError, ValueError):
        return
    is_foreign = status.st_uid not in (0, os.geteuid())
    who = "another user" if is_foreign else who_writes(status.st_mode)
    if who and os.path.isfile(file.path):
        message = f"{who} can write this file and choose where tokens are sent, so the plugin refuses it"
        yield KF656.of_file(file.path, f"{message}; make root its owner, and run chmod go-w")


KF657 = Code(
    "KF657",
    Severity.INFO,
    "rules for the kubelet's token have different audiences",
    why="a provider entry has one audience, so one entry cannot serve all of these rules",
    fix="use one audience, or install the plugin under a second name, with an entry for the other audience",
)


@file_rule(KF657)
def audiences(file: FederationFile) -> Iterator[Finding]:
    """The first rule whose audience differs from that of an earlier one."""
    found = kubelet_audiences(file.config)
    for number, rule in enumerate(file.config.rules):
        if len(found) > 1 and complete_rule(rule).subject.audience == found[1]:
            message = (
                f"an earlier rule has the audience {found[0]!r}, and a provider entry of the kubelet has one "
                "audience; this rule needs an entry of its own"
            )
            finding = KF657.at("rules", number, "subject", "audience", message=message)
            yield finding.placed(file.path, file.document)
            return


KF658 = Code(
    "KF658",
    Severity.WARNING,
    "further YAML documents are ignored",
    why="only the first document of a file is read",
    fix="put all rules in one list",
)


@file_rule(KF658)
def later_documents(file: FederationFile) -> Iterator[Finding]:
    """A second YAML document."""
    if file.document is not None and not file.is_json:
        yield from find_later_document(KF658, file.path, file.data)


KF650 = Code(
    "KF650",
    Severity.WARNING,
    "the FederationConfig contains a secret",
    why="the file is often readable by all users, and copied to images and backups",
    fix="use a parameter with file or env in place of the text",
)


@federation_rule(KF650)
def secrets(rule: FederationRule) -> Iterator[Finding]:
    """Secrets that stand in the file as texts."""
    message = "the text looks like a secret; use a parameter with file or env"
    yield from (KF650.at(*at, message=message) for at in _literal_secrets(rule))


def _literal_secrets(rule: FederationRule) -> Iterator[Path]:
    for name, source in rule.parameters.items():
        # A preset knows which of its parameters are secrets: vault's 'secret' is a path.
        if looks_secret(name if rule.recipe else "", source.text):
            yield "params", name
    recipe = rule.recipe
    if recipe is None:
        return
    for number, call in enumerate(recipe.calls):
        yield from (("calls", number, *at) for at in _secrets_of_call(call))
    password = recipe.credentials.password
    if password and "${" not in password:
        yield "credentials", "password"


def _secrets_of_call(call: ExchangeCall) -> Iterator[Path]:
    for part, texts in (("fields", call.fields), ("headers", call.headers)):
        for name, text in texts.items():
            if "${" not in text and looks_secret(name, text):
                yield part, name
    for at, text in ((("bearer",), call.bearer), (("basic", "password"), call.basic.password)):
        if text and "${" not in text:
            yield at


KF651 = Code(
    "KF651",
    Severity.WARNING,
    "the issuer is not an https URL",
    why="a registry reads the issuer's keys from its URL, and trusts none without https",
    fix="use the issuer of 'kubectl get --raw /.well-known/openid-configuration', in its own spelling",
)
KF654 = Code(
    "KF654",
    Severity.WARNING,
    "the audience is nearly the issuer",
    why="the API server's own audience is usually the issuer; a token for it can be used at the API server",
    fix="choose an audience of the registry's own",
)


@federation_rule(KF651, KF654)
def subject(rule: FederationRule) -> Iterator[Finding]:
    """An issuer that no registry trusts, and an audience that may be the API server's own."""
    audience, issuer = rule.subject.audience, rule.subject.issuer
    if issuer and not issuer.startswith("https://"):
        message = f"{issuer[:200]!r} is not an https URL, so a registry cannot read the issuer's keys there"
        yield KF651.at("subject", "issuer", message=message)
    if audience != issuer and audience.rstrip("/").lower() == issuer.rstrip("/").lower() and issuer:
        message = "the audience is the issuer in another spelling; choose an audience of the registry's own"
        yield KF654.at("subject", "audience", message=message)


KF652 = Code(
    "KF652",
    Severity.WARNING,
    "a token is sent to an IP address",
    why="an address can belong to another machine tomorrow, and few certificates name one",
    fix="use a host name",
)


@federation_rule(KF652)
def hosts(rule: FederationRule) -> Iterator[Finding]:
    """IP addresses that get a token."""
    for number, registry in enumerate(rule.registries):
        if _is_address(registry):
            yield KF652.at("registries", number, message=f"{registry!r} is an IP address; use a host name")
    complete = complete_rule(rule)
    texts = {name: source.text for name, source in complete.parameters.items()}
    for registry in rule.registries[:1]:
        values = {name: expand_parameter(text, registry) for name, text in texts.items()}
        for number, call in enumerate(complete.recipe.calls):
            host = _host_of(call, {**values, "registry": registry})
            if _is_address(host) and host != registry:
                at: Path = ("calls", number, "url") if rule.recipe else ("params",)
                yield KF652.at(*at, message=f"a call goes to {host!r}, an IP address; use a host name")


def _host_of(call: ExchangeCall, values: dict[str, str]) -> str:
    try:
        return build_url(call.url, values).split("/")[2]
    except TemplateError:
        return ""  # an error of its own


def _is_address(host: str) -> bool:
    labels = host.partition(":")[0].split(".")
    return len(labels) == 4 and all(label.isascii() and label.isdigit() for label in labels)


KF653 = Code(
    "KF653",
    Severity.WARNING,
    "a pattern for an annotation matches everything",
    why="whoever may annotate a service account then chooses any identity at the registry",
    fix="list the names that are allowed, such as 'team\\+[a-z]+'",
)


@federation_rule(KF653)
def patterns(rule: FederationRule) -> Iterator[Finding]:
    """Patterns for annotations that allow everything."""
    for name, source in rule.parameters.items():
        if source.pattern and _matches_everything(source.pattern):
            message = (
                f"the pattern {source.pattern[:80]!r} matches everything; list the names that are allowed"
            )
            yield KF653.at("params", name, "pattern", message=message)


def _matches_everything(pattern: str) -> bool:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False  # an error of its own
    return all(compiled.fullmatch(each) for each in _STRANGERS)


KF655 = Code(
    "KF655",
    Severity.INFO,
    "a file of the config does not exist on this machine",
    why="the plugin fails without it",
    fix="create it, or correct the path",
    on_this_machine=True,
)


@federation_rule(KF655)
def files(rule: FederationRule) -> Iterator[Finding]:
    """Files that do not exist."""
    named: list[tuple[Path, str]] = [(("caFile",), rule.ca_file), (("subject", "file"), rule.subject.file)]
    named += [(("params", name, "file"), source.file) for name, source in rule.parameters.items()]
    for at, path in named:
        if path and not os.path.isfile(path):
            yield KF655.at(*at, message=f"the file {path!r} does not exist on this machine")
