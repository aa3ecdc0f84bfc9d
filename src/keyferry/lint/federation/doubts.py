"""What a FederationConfig may say and hardly means: secrets, addresses, patterns that match everything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from keyferry._core.documents import DocumentFormat
from keyferry._core.paths import Path
from keyferry.api.federation.rules import CompleteRule, complete_rule, expand_parameter
from keyferry.api.federation.templates import TemplateError, build_url
from keyferry.api.federation.v1alpha1 import ExchangeCall, FederationRule
from keyferry.errors import Problem
from keyferry.lint.federation.decode import FederationFile, kubelet_audiences
from keyferry.lint.files import second_document, who_writes
from keyferry.lint.secrets import looks_secret

__all__ = ["find_doubts"]

Doubt = tuple[Path, str, str]  # path, code, message

_SECRET, _ISSUER, _ADDRESS, _PATTERN, _NEARLY, _MISSING, _WRITERS, _AUDIENCES, _LATER = (
    "KF650",
    "KF651",
    "KF652",
    "KF653",
    "KF654",
    "KF655",
    "KF656",
    "KF657",
    "KF658",
)
# Identities that have nothing in common; a pattern that allows all of them allows everything.
_STRANGERS = ("a", "Z9", "org+robot", "x/y", "a b", "évil", "-", "..", "other@example.com")


def find_doubts(file: FederationFile) -> Iterator[Problem]:
    """Yield what is accepted and probably not intended."""
    yield from _file_doubts(file)
    for number, rule in enumerate(file.config.rules):
        for at, code, message in _rule_doubts(rule):
            yield file.place(("rules", number, *at), message, code)
    yield from _audience_doubts(file)


def _file_doubts(file: FederationFile) -> Iterator[Problem]:
    try:
        status = os.stat(file.path)
    except (OSError, ValueError):
        status = None
    is_foreign = status is not None and status.st_uid not in (0, os.geteuid())
    who = who_writes(status.st_mode) if status is not None else ""
    # The plugin's own rule; standard input is no file that it reads.
    if (who or is_foreign) and os.path.isfile(file.path):
        owner = "another user" if is_foreign else who
        message = f"{owner} can write this file and choose where tokens are sent, so the plugin refuses it"
        yield Problem(
            "", f"{message}; make root its owner, and run chmod go-w", code=_WRITERS, file=file.path
        )
    if file.document is not None and file.document.format is DocumentFormat.YAML:
        start = second_document(file.data)
        if start is not None:
            message = "only the first YAML document is read: everything from this '---' on is ignored"
            yield Problem("", message, code=_LATER, file=file.path, line=start[0], column=start[1])


def _rule_doubts(rule: FederationRule) -> Iterator[Doubt]:
    complete = complete_rule(rule)
    yield from _secrets(rule)
    yield from _subject(rule)
    yield from _hosts(rule, complete)
    for name, source in rule.parameters.items():
        if source.pattern and _matches_everything(source.pattern):
            message = (
                f"the pattern {source.pattern[:80]!r} matches everything; list the names that are allowed"
            )
            yield ("params", name, "pattern"), _PATTERN, message
    yield from _files(rule)


def _secrets(rule: FederationRule) -> Iterator[Doubt]:
    message = "the text looks like a secret; use a parameter with file or env"
    for name, source in rule.parameters.items():
        # A preset knows which of its parameters are secrets: vault's 'secret' is a path.
        if looks_secret(name if rule.recipe else "", source.text):
            yield ("params", name), _SECRET, message
    recipe = rule.recipe
    if recipe is None:
        return
    for number, call in enumerate(recipe.calls):
        yield from ((("calls", number, *at), _SECRET, message) for at in _literal_secrets(call))
    password = recipe.credentials.password
    if password and "${" not in password:
        yield ("credentials", "password"), _SECRET, message


def _literal_secrets(call: ExchangeCall) -> Iterator[Path]:
    for part, texts in (("fields", call.fields), ("headers", call.headers)):
        for name, text in texts.items():
            if "${" not in text and looks_secret(name, text):
                yield part, name
    for at, text in ((("bearer",), call.bearer), (("basic", "password"), call.basic.password)):
        if text and "${" not in text:
            yield at


def _subject(rule: FederationRule) -> Iterator[Doubt]:
    audience, issuer = rule.subject.audience, rule.subject.issuer
    if issuer and not issuer.startswith("https://"):
        message = f"{issuer[:200]!r} is not an https URL, so a registry cannot read the issuer's keys there"
        yield ("subject", "issuer"), _ISSUER, message
    if audience != issuer and audience.rstrip("/").lower() == issuer.rstrip("/").lower() and issuer:
        message = "the audience is the issuer in another spelling; choose an audience of the registry's own"
        yield ("subject", "audience"), _NEARLY, message


def _hosts(rule: FederationRule, complete: CompleteRule) -> Iterator[Doubt]:
    for number, registry in enumerate(rule.registries):
        if _is_address(registry):
            yield ("registries", number), _ADDRESS, f"{registry!r} is an IP address; use a host name"
    texts = {name: source.text for name, source in complete.parameters.items()}
    for registry in rule.registries[:1]:
        values = {name: expand_parameter(text, registry) for name, text in texts.items()}
        for number, call in enumerate(complete.recipe.calls):
            host = _host_of(call, {**values, "registry": registry})
            if _is_address(host) and host != registry:
                at: Path = ("calls", number, "url") if rule.recipe else ("params",)
                yield at, _ADDRESS, f"a call goes to {host!r}, an IP address; use a host name"


def _host_of(call: ExchangeCall, values: dict[str, str]) -> str:
    try:
        return build_url(call.url, values).split("/")[2]
    except TemplateError:
        return ""  # an error of its own


def _is_address(host: str) -> bool:
    labels = host.partition(":")[0].split(".")
    return len(labels) == 4 and all(label.isascii() and label.isdigit() for label in labels)


def _matches_everything(pattern: str) -> bool:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False  # an error of its own
    return all(compiled.fullmatch(each) for each in _STRANGERS)


def _files(rule: FederationRule) -> Iterator[Doubt]:
    named: list[tuple[Path, str]] = [(("caFile",), rule.ca_file), (("subject", "file"), rule.subject.file)]
    named += [(("params", name, "file"), source.file) for name, source in rule.parameters.items()]
    for at, path in named:
        if path and not os.path.isfile(path):
            yield at, _MISSING, f"the file {path!r} does not exist on this machine"


def _audience_doubts(file: FederationFile) -> Iterator[Problem]:
    """Yield the first rule whose audience differs from that of an earlier one."""
    audiences = kubelet_audiences(file.config)
    for number, rule in enumerate(file.config.rules):
        if len(audiences) > 1 and complete_rule(rule).subject.audience == audiences[1]:
            message = (
                f"an earlier rule has the audience {audiences[0]!r}, and a provider entry of the kubelet has one "
                "audience; this rule needs an entry of its own"
            )
            yield file.place(("rules", number, "subject", "audience"), message, _AUDIENCES)
            return
