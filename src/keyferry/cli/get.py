"""Print the credentials for an image, in the kubelet's trial order."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry._core.secrets import MASK, masked, printable
from keyferry.cli.image_arguments import (
    add_lookup_arguments,
    add_question_arguments,
    choose_wait,
    code_for,
    failed_plugin_lines,
    question_request,
)
from keyferry.cli.options import add_output_argument
from keyferry.images.answer import Answer, LookupOutcome
from keyferry.images.reference import parse_image
from keyferry.show.documents import as_json, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report, write_exact
from keyferry.workloads.inputs import resolve_inputs

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
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it")
    add_output_argument(parser, FORMATS)
    parser.add_argument("--reveal", action="store_true", help="show passwords instead of masking them")
    add_lookup_arguments(parser)
    add_question_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the credentials; report failures on standard error."""
    image = parse_image(args.image)  # reports a wrong image name before any file is read
    request = question_request(args, image=args.image, is_start=True)
    inputs = resolve_inputs(request)
    report(*inputs.sources.warnings)
    answer = inputs.lookup(image, wait=choose_wait())
    report(*inputs.notes_on(answer))
    text = _text(answer, args.output, reveal=args.reveal)
    if args.output == "env":
        write_exact(text.encode("utf-8", "surrogateescape"))
    elif text:
        print(text)
    said = _NONE.get(answer.outcome)
    if said is not None:
        report(f"no credentials for {answer.name}{said}; try: {request.explain_command()}")
    report(*failed_plugin_lines(answer, inputs))
    return code_for(answer)


def _text(answer: Answer, output: str, *, reveal: bool) -> str:
    if output not in ("json", "yaml"):
        return _WRITERS[output](answer, reveal)
    from keyferry.explain.document import credentials_document

    return render_document(credentials_document(answer, reveal=reveal), output)


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
    "dockerconfig": _dockerconfig,
    "env": _env,
}
