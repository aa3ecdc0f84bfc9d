"""Print the credentials for an image, in the kubelet's trial order."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry._core.secrets import MASK, masked, printable
from keyferry.cli.frame.image_lookup import (
    add_image_and_output_arguments,
    add_lookup_arguments,
    add_question_arguments,
    code_for,
    look_up_image,
    report_failed_plugins,
)
from keyferry.explain.document import credentials_document
from keyferry.images.answer import Answer, LookupOutcome
from keyferry.show.documents import as_json, as_yaml
from keyferry.show.text import fitting_table
from keyferry.show.writer import report, write_exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.answer import Provision

DESCRIPTION = """\
Print the credentials for an image, in the kubelet's trial order: pull secrets, then the node's docker
config, then the credential providers that match. Plugins are run as the kubelet runs them.

Passwords are masked unless --reveal is given. Exit code 0 means that there are credentials, 1 that there
are none and a kubelet would make one anonymous attempt, 4 that there are none because a plugin failed, 6 that
the result is unknown: an input that a kubelet has is missing, such as the pod, and a note names the option
that gives it."""

EXAMPLES = """\
examples:
  keyferry get 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1
  keyferry get registry.example/app --config ./providers.yaml --bin-dir ./bin
  keyferry get registry.example/app --reveal -o dockerconfig > auth.json
  keyferry get registry.example/app --secret pull-secret.yaml -o json
  eval "$(keyferry get registry.example/app --reveal -o env)"   # REGISTRY_USERNAME, REGISTRY_PASSWORD"""

_NONE = {
    LookupOutcome.ANONYMOUS: "; a kubelet would pull anonymously",
    LookupOutcome.UNKNOWN: " are found; what a kubelet would do is unknown",
}
FORMATS = ("table", "wide", "json", "yaml", "dockerconfig", "env")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry get``."""
    add_image_and_output_arguments(parser, FORMATS)
    parser.add_argument("--reveal", action="store_true", help="show passwords instead of masking them")
    add_lookup_arguments(parser)
    add_question_arguments(parser)
    parser.set_defaults(is_start=True)


def run(args: argparse.Namespace) -> int:
    """Print the credentials; report failures on standard error."""
    lookup = look_up_image(args)
    lookup.report(args)
    answer = lookup.answer
    text = _WRITERS[args.output](answer, args.reveal)
    if args.output == "env":
        write_exact(text.encode("utf-8", "surrogateescape"))
    elif text:
        print(text)
    said = _NONE.get(answer.outcome)
    if said is not None:
        from keyferry.cli.hints import command_line

        hint = f"try: {command_line(args, 'explain', answer.image)}"
        report(f"no credentials for {answer.name}{said}; {hint}")
    report_failed_plugins(lookup)
    return code_for(answer)


def _table(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    rows = [
        (c.username, c.password if reveal else masked(c.password), c.key, str(c.source))
        for c in answer.credentials
    ]
    return fitting_table(("USERNAME", "PASSWORD", "KEY", "SOURCE"), rows) if rows else ""


def _wide(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    how = {provision.provider: _how(provision) for provision in answer.provisions}
    rows = [
        (
            str(at),
            c.username,
            c.password if reveal else masked(c.password),
            c.key,
            str(c.source),
            how.get(c.source.name, "file"),
        )
        for at, c in enumerate(answer.credentials, 1)
    ]
    return fitting_table(("ORDER", "USERNAME", "PASSWORD", "KEY", "SOURCE", "HOW"), rows) if rows else ""


def _how(provision: Provision) -> str:
    return f"agent, {provision.outcome}" if provision.is_from_agent else str(provision.outcome)


def _json(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    return as_json(credentials_document(answer, reveal=reveal))


def _yaml(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    return as_yaml(credentials_document(answer, reveal=reveal))


def _dockerconfig(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    """Return a docker config.json with the first credential, under the registry's own key."""
    from base64 import b64encode

    auths = {}
    for credential in answer.credentials[:1]:
        pair = f"{credential.username}:{credential.password}"
        auth = b64encode(pair.encode("utf-8", "surrogateescape")).decode() if reveal else MASK
        auths[_registry_key(answer.name)] = {"auth": auth}
    return as_json({"auths": auths})


def _registry_key(name: str) -> str:
    """Return the key that docker clients look up: the registry, or Docker Hub's old address."""
    registry = name.partition("/")[0]
    return LOGIN_URL if registry == HUB else registry


def _env(answer: Answer, reveal: bool) -> str:  # noqa: FBT001 - the shape of a writer
    """Return lines for a shell, quoted so that the shell executes nothing in them."""
    # A shell gets the exact bytes; a terminal gets one printable line for each variable.
    shown = printable if sys.stdout.isatty() else str
    lines = []
    for credential in answer.credentials[:1]:
        password = MASK if credential.password and not reveal else credential.password
        lines = [
            f"REGISTRY={shlex.quote(answer.name.partition('/')[0])}",
            f"REGISTRY_USERNAME={shlex.quote(credential.username)}",
            f"REGISTRY_PASSWORD={shlex.quote(password)}",
        ]
    return "".join(f"{shown(line)}\n" for line in lines)


_WRITERS: dict[str, Callable[[Answer, bool], str]] = {
    "table": _table,
    "wide": _wide,
    "json": _json,
    "yaml": _yaml,
    "dockerconfig": _dockerconfig,
    "env": _env,
}
