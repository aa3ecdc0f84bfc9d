"""What the exec plugin of a context is given: its program, its variables and KUBERNETES_EXEC_INFO."""

import json
import os
import shlex

from keyferry.cli.frame.arguments import add_output_argument
from keyferry.cli.frame.commands import Exit
from keyferry.cli.kube.arguments import add_context_arguments, resolve_context
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.clusters.kubeconfig.resolve import ClientConfig
    from keyferry.show.writer import Lines

DESCRIPTION = """\
What the exec plugin of a context is given: its program and arguments, the variables that are set for it, by
name, and KUBERNETES_EXEC_INFO. Nothing is run. What looks like a secret is masked unless you say --reveal;
with -o raw and --reveal it is KUBERNETES_EXEC_INFO to the byte, to try a plugin by hand."""

EXAMPLES = """\
examples:
  keyferry kube exec-info --context prod
  KUBERNETES_EXEC_INFO="$(keyferry kube exec-info -o raw --reveal)" my-plugin"""

FORMATS = ("table", "raw", "json", "yaml")
_SHORT = 40


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry kube exec-info``."""
    add_output_argument(parser, FORMATS)
    parser.add_argument("--reveal", action="store_true", help="show what looks like a secret, too")
    add_context_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print it."""
    from keyferry.clusters.kubeconfig.resolve import check_transport
    from keyferry.clusters.session import uses_plugin

    config = resolve_context(args)
    check_transport(config)
    if not uses_plugin(config):
        report(_why_none(config))
        return Exit.NO
    interactive, question = _interactive(config)
    text, is_masked = _info(config, interactive=interactive, reveal=args.reveal)
    if args.output == "raw":
        from keyferry.show.writer import write_exact

        write_exact(text.encode("utf-8", "surrogateescape"))
        if is_masked:
            report("what looks like a secret is masked; --reveal shows it")
        return Exit.OK
    _print(args, _document(config, text, question, reveal=args.reveal))
    return Exit.OK


def _interactive(config: "ClientConfig") -> tuple[bool, str]:
    """Whether the plugin may ask questions, and why that is so."""
    from keyferry.clusters.auth.runner import is_interactive
    from keyferry.errors import EnvironmentProblem

    mode = config.exec.interactive_mode if config.exec is not None else ""
    try:
        interactive = is_interactive(mode, terminal=os.isatty(0))
    except EnvironmentProblem as error:
        return False, f"{mode}: it would not run, {error.message}"
    return interactive, f"{mode}: {'the terminal' if interactive else 'nothing'} on standard input"


def _info(config: "ClientConfig", *, interactive: bool, reveal: bool) -> tuple[str, bool]:
    from keyferry.clusters.why.masking import exec_info_document, exec_info_text, write_document

    text = exec_info_text(config, interactive=interactive)
    if reveal:
        return text, False
    masked = write_document(exec_info_document(text))
    # The exact bytes where there was nothing to mask: numbers and blanks are the plugin's own.
    is_masked = json.loads(masked) != json.loads(text)
    return (masked if is_masked else text), is_masked


def _document(config: "ClientConfig", text: str, question: str, *, reveal: bool) -> dict[str, object]:
    from keyferry.clusters.why.masking import mask_arguments
    from keyferry.show.documents import make_document

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


def _print(args: "argparse.Namespace", document: dict[str, object]) -> None:
    from keyferry.show.documents import render_document

    if args.output == "table":
        print(_text(document))
    else:
        print(render_document(document, args.output))


def _text(document: dict[str, object]) -> "Lines":
    from keyferry._core.secrets import printable
    from keyferry.show.documents import as_json
    from keyferry.show.text import sections

    words, names = document["args"], document["env"]
    command = [str(document["command"]), *(words if isinstance(words, list) else ())]
    env = ", ".join(names) if isinstance(names, list) and names else "none"
    parts = (
        ("command", [shlex.join(command)]),
        ("variables set for it", [f"{env}; and this process's own, and KUBERNETES_EXEC_INFO"]),
        ("may ask questions", [str(document["interactive"])]),
        ("KUBERNETES_EXEC_INFO", as_json(_shorten(document["execInfo"])).split("\n")),
    )
    return sections((title, map(printable, lines)) for title, lines in parts)


def _shorten(value: object, name: str = "") -> object:
    """The same with the long base64 of the authority cut short: -o json has all of it."""
    if isinstance(value, dict):
        return {key: _shorten(item, key) for key, item in value.items()}
    if name == "certificate-authority-data" and isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}... ({len(value)} characters)"
    return value


def _why_none(config: "ClientConfig") -> str:
    who = f"no plugin is run for user {config.user_name!r}"
    if not config.server.startswith("https://"):
        return f"{who}: the server {config.server!r} is not https, and then users are ignored"
    if config.exec is not None:
        return f"{who}: a token, basic auth or certificate beside its exec section goes before it"
    return f"{who}: it has no exec section"
