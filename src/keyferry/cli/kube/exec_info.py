"""The input of a context's exec plugin: its command, its variables and KUBERNETES_EXEC_INFO."""

from __future__ import annotations

import json
import os
import shlex

from keyferry._core.secrets import mask_arguments, printable
from keyferry._core.user_info import hide_in_url
from keyferry.cli.exits import Exit
from keyferry.cli.options import add_context_arguments, add_output_argument, resolve_context
from keyferry.clusters.auth.runner import is_interactive
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport
from keyferry.clusters.why.masking import exec_info_document, exec_info_text, write_document
from keyferry.errors import EnvironmentProblem
from keyferry.show.documents import as_json, make_document, render_document
from keyferry.show.text import Whole, sections
from keyferry.show.writer import Lines, report, write_exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Print the input of a context's exec plugin: its command and arguments, the names of the variables that are
set for it, and KUBERNETES_EXEC_INFO. No plugin is run. Values that look like secrets are masked unless
--reveal is given. With -o raw and --reveal, the output is the exact KUBERNETES_EXEC_INFO, to run a plugin by
hand."""

EXAMPLES = """\
examples:
  keyferry kube exec-info --context prod
  KUBERNETES_EXEC_INFO="$(keyferry kube exec-info -o raw --reveal)" my-plugin"""

FORMATS = ("table", "raw", "json", "yaml")
_SHORT = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube exec-info``."""
    add_output_argument(parser, FORMATS)
    parser.add_argument("--reveal", action="store_true", help="show values that look like secrets")
    add_context_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the input of the plugin."""
    config = resolve_context(args)
    check_transport(config)
    if not config.uses_plugin:
        report(_why_none(config))
        return Exit.NO
    interactive, question = _interactive(config)
    text, is_masked = _info(config, interactive=interactive, reveal=args.reveal)
    if args.output == "raw":
        write_exact(text.encode("utf-8", "surrogateescape"))
        if is_masked:
            report("values that look like secrets are masked; show them with --reveal")
        return Exit.OK
    _print(args, _document(config, text, question, reveal=args.reveal))
    return Exit.OK


def _interactive(config: ClientConfig) -> tuple[bool, str]:
    """Return whether the plugin may read standard input, and why."""
    mode = config.exec.interactive_mode if config.exec is not None else ""
    try:
        interactive = is_interactive(mode, terminal=os.isatty(0))
    except EnvironmentProblem as error:
        return False, f"{mode}: the plugin cannot run, {error.message}"
    return interactive, f"{mode}: {'the terminal' if interactive else 'nothing'} on standard input"


def _info(config: ClientConfig, *, interactive: bool, reveal: bool) -> tuple[str, bool]:
    text = exec_info_text(config, interactive=interactive)
    if reveal:
        return text, False
    masked = write_document(exec_info_document(text))
    # The exact text if nothing is masked: numbers and white space stay as the plugin gets them.
    is_masked = json.loads(masked) != json.loads(text)
    return (masked if is_masked else text), is_masked


def _document(config: ClientConfig, text: str, question: str, *, reveal: bool) -> dict[str, object]:
    plugin = config.exec
    arguments = (plugin.args if plugin is not None else None) or ()
    return make_document(
        "ExecInfo",
        context=config.context,
        user=config.user_name,
        file=config.user_origin,
        command=plugin.command if plugin is not None else "",
        args=list(arguments if reveal else mask_arguments(arguments)),
        env=[variable.name for variable in plugin.env] if plugin is not None else [],
        interactive=question,
        execInfo=json.loads(text),
    )


def _print(args: argparse.Namespace, document: dict[str, object]) -> None:
    if args.output == "table":
        print(_text(document))
    else:
        print(render_document(document, args.output))


def _text(document: dict[str, object]) -> Lines:
    words, names = document["args"], document["env"]
    command = [str(document["command"]), *(words if isinstance(words, list) else ())]
    env = ", ".join(names) if isinstance(names, list) and names else "none"
    parts = (
        ("command", [shlex.join(command)]),
        ("variables", [f"{env}; in addition to those of this process and KUBERNETES_EXEC_INFO"]),
        ("interactive", [str(document["interactive"])]),
        ("KUBERNETES_EXEC_INFO", as_json(_shorten(document["execInfo"])).split("\n")),
    )
    return sections((title, (Whole(printable(line)) for line in lines)) for title, lines in parts)


def _shorten(value: object, name: str = "") -> object:
    """Return *value* with long certificate authority data shortened; ``-o json`` has all of it."""
    if isinstance(value, dict):
        return {key: _shorten(item, key) for key, item in value.items()}
    if name == "certificate-authority-data" and isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}... ({len(value)} characters)"
    return value


def _why_none(config: ClientConfig) -> str:
    who = f"no plugin is run for user {config.user_name!r}"
    if not config.server.startswith("https://"):
        return f"{who}: the server {hide_in_url(config.server)!r} is not https, and kubectl then ignores the user"
    if config.exec is not None:
        return f"{who}: its token, basic auth or certificate takes precedence over its exec section"
    return f"{who}: it has no exec section"
