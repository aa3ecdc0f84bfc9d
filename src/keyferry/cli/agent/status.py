"""Show the agent's status: providers, cache, next refreshes, last failures, and who asked."""

from __future__ import annotations

import os
import shlex
import sys
from time import sleep

from keyferry.agent.management import AgentUnavailableError, ask_for_document
from keyferry.agent.settings import socket_options
from keyferry.cli.agent.arguments import add_socket_argument, socket_path
from keyferry.cli.exits import Exit
from keyferry.cli.options import add_output_argument
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import table
from keyferry.show.writer import Lines, Output, join_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Show the agent's status: its providers and what they have cached, the next refreshes, the last failure of each
provider, the last reload, and who asked. It contains no secret.

Exit code 1 means that the last reload was refused and the agent runs with an old config."""

EXAMPLES = """\
examples:
  sudo keyferry agent status
  sudo keyferry agent status --watch
  sudo keyferry agent status -o json | jq '.providers[].cache'"""

_PAUSE_SECONDS = 1.0
_MOST_REFRESHES = 5
Json = dict[str, object]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry agent status``."""
    add_output_argument(parser, ("table", "json", "yaml"))
    add_socket_argument(parser)
    parser.add_argument(
        "-w", "--watch", action="store_true", help="show it again every second, until interrupted"
    )


def run(args: argparse.Namespace) -> int:
    """Print the status, once or every second."""
    code = _show(args)
    while args.watch:
        sleep(_PAUSE_SECONDS)
        try:
            code = _show(args)
        except AgentUnavailableError as error:
            # It may be restarting.
            _print(str(error), args)
    return code


def _show(args: argparse.Namespace) -> int:
    path = socket_path(args)
    answer = ask_for_document(path, "GET", "/v1/status")
    if args.output == "table":
        text: object = _text(answer, path)
    else:
        fields = {name: value for name, value in answer.items() if name not in ("apiVersion", "kind")}
        text = render_document(make_document("AgentStatus", **fields), args.output)
    _print(text, args)
    return Exit.OK if _object(answer, "reload").get("applied") is True else Exit.NO


def _print(text: object, args: argparse.Namespace) -> None:
    if args.watch and isinstance(sys.stdout, Output):
        sys.stdout.clear_screen()
    print(text, flush=args.watch)


def _text(answer: Json, path: str) -> Lines:
    config, reload, refresh = (_object(answer, name) for name in ("config", "reload", "refresh"))
    sockets = answer.get("sockets")
    lines = [
        f"agent {answer.get('version')}, pid {answer.get('pid')}, user {answer.get('uid')}, "
        f"since {answer.get('startedAt')}",
        f"socket  {' '.join(map(str, sockets if isinstance(sockets, list) else ()))}",
        f"config  {config.get('providerConfig')} ({config.get('hash')}), loaded {config.get('loadedAt')}",
    ]
    lines.append(
        f"plugins {config.get('binDir')}, run as user {answer.get('uid')} and group {answer.get('gid')}, "
        "in the agent's environment"
    )
    if answer.get("metrics"):
        lines.append(f"metrics http://{answer.get('metrics')}/metrics")
    if answer.get("page"):
        command = shlex.join(("keyferry", "agent", "page", *socket_options(path, os.environ)))
        lines.append(f"page    {answer.get('page')}; '{command}' prints a link to it")
    if answer.get("pageProblem"):
        lines.append(f"the page is not served: {answer.get('pageProblem')}")
    if answer.get("takenOver") is True:
        lines.append("another process has the socket now")
    if reload.get("applied") is not True:
        lines.append(f"the config of {reload.get('at')} is refused; the old one is in force:")
        lines += [f"  {problem}" for problem in _list(reload, "problems")]
    providers = [_object({"": each}, "") for each in _list(answer, "providers")]
    lines += ["", table(_PROVIDERS, [_provider_row(each) for each in providers])]
    upcoming = [_object({"": each}, "") for each in _list(refresh, "next")][:_MOST_REFRESHES]
    if upcoming:
        rows = [[str(each.get(name)) for name in ("at", "provider", "for", "failures")] for each in upcoming]
        lines += ["", table(("NEXT REFRESH", "PROVIDER", "FOR", "FAILURES"), rows)]
    failures = [(str(each.get("name")), _object(each, "lastFailure")) for each in providers]
    rows = [[str(last.get("at")), name, str(last.get("message"))] for name, last in failures if last]
    if rows:
        lines += ["", table(("LAST FAILURE", "PROVIDER", "MESSAGE"), rows)]
    callers = [_object({"": each}, "") for each in _list(answer, "callers")]
    rows = [[str(each.get(name)) for name in ("uid", "requests", "refused", "lastAt")] for each in callers]
    if rows:
        lines += ["", table(("UID", "REQUESTS", "REFUSED", "LAST"), rows)]
    return join_lines(lines)


_PROVIDERS = ("PROVIDER", "CACHED", "TENANTS", "EXPIRES", "HITS", "RUNS", "FAILED")


def _provider_row(provider: Json) -> list[str]:
    cache, failures = _object(provider, "cache"), _object(provider, "failures")
    failed = sum(number for number in failures.values() if isinstance(number, int))
    return [
        str(provider.get("name")),
        str(cache.get("entries")),
        str(cache.get("tenantEntries")),
        str(cache.get("expiresAt") or ""),
        str(provider.get("hits")),
        str(provider.get("runs")),
        str(failed),
    ]


def _object(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Json, name: str) -> list[object]:
    value = document.get(name)
    return value if isinstance(value, list) else []
