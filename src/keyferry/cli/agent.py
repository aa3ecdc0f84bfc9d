"""``keyferry agent``: run the node agent, and look after it."""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from time import sleep

from keyferry._net.agent import is_trusted
from keyferry._net.listen_address import MAX_SOCKET_PATH
from keyferry.agent.settings import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    DEFAULTS,
    NAMES,
    SOCKET_VARIABLE,
    AgentSettings,
    Given,
    describe_users,
    find_agent_socket,
    flag_of,
    resolve_settings,
    socket_options,
)
from keyferry.api.agentconfig.v1alpha1 import DURATIONS, AccessRule, ManageRule
from keyferry.api.meta import format_duration
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_output_argument
from keyferry.cli.run import Command, add_subcommand, run_subcommand
from keyferry.errors import EnvironmentProblem
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import table, terminal_rows, terminal_width
from keyferry.show.writer import Output, report

DESCRIPTION = """\
Run the node agent, and look after it. The agent is one process for the whole node. It keeps the credentials of
the node's providers in memory, gives them to every user whom its rules allow, renews them before they expire, and
picks up changes of the config. Nothing depends on it: without it everything works as before, only slower.

  run      run the agent in the foreground, until SIGTERM; SIGHUP reloads
  status   show whether all is well, what is not, and each provider
  reload   read all configs again; a broken config is refused, and the old one stays
  config   show every setting in force, and where its value comes from
  page     print a link to the agent's page, which works once

'keyferry lint /etc/keyferry/agent.yaml' lists every problem of the agent's config."""

EXAMPLES = """\
examples:
  sudo keyferry agent run
  keyferry agent config --agent-config ./agent.yaml
  sudo keyferry agent status --watch
  sudo keyferry agent reload"""

# The kubelet's own names of options.
KUBELET_FLAGS = {
    "providerConfig": ("--image-credential-provider-config",),
    "binDir": ("--image-credential-provider-bin-dir",),
}
# The words for a value of each setting, and its help without the default, in the order of NAMES.
HELP = {
    "socket": ("PATH", f"the socket, with a path of at most {MAX_SOCKET_PATH} bytes"),
    "socketMode": ("MODE", "permissions of the socket, in octal"),
    "socketGroup": ("GID", "group of the socket"),
    "providerConfig": ("PATH", "provider config, a file or a directory"),
    "binDir": ("DIR", "directory of the plugins"),
    "pluginTimeout": ("DURATION", "time limit of one plugin run"),
    "refreshAhead": ("BOOL", "renew answers before they expire, true or false"),
    "refreshIdle": ("DURATION", "do not renew answers that nobody has asked for in this time"),
    "cacheEntries": (
        "NUMBER",
        "maximum number of cached answers of each provider, and as many again for tenants",
    ),
    "cacheBytes": (
        "NUMBER",
        "maximum memory of the answers of each provider, in bytes, as much again for tenants, and once more for all",
    ),
    "connections": ("NUMBER", "maximum number of connections; one user has at most half of them"),
    "watch": ("BOOL", "reload when a config changes, true or false"),
    "handOver": ("BOOL", "take over the cache of a running agent at the start"),
    "stopTimeout": ("DURATION", "time for requests in progress when the agent stops"),
    "page": ("ADDRESS", "serve the page here, on loopback, such as 127.0.0.1:7475; or off"),
    "metrics": ("ADDRESS:PORT", "serve metrics for Prometheus here, without a login; or off"),
    "logLevel": ("LEVEL", "debug, info, warning or error; debug has every request"),
    "logFormat": ("FORMAT", "text or json"),
}
# Of the settings whose default depends on the user or the node.
_DEFAULTS = {
    "socket": "/run/keyferry/agent.sock; for users other than root in XDG_RUNTIME_DIR",
    "socketGroup": "that of the agent",
    "providerConfig": "the node's own",
    "binDir": "the node's own",
}
_PAUSE_SECONDS = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: Namespace) -> int:
    """Run one subcommand; report its errors without a hint."""
    return run_subcommand(args, SUBCOMMANDS)


def default_of(name: str) -> str:
    """Return the default of a setting in words, or as it is written in a config file."""
    value = DEFAULTS.get(name)
    if value is None:
        return _DEFAULTS[name]
    if name in DURATIONS:
        return short_duration(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_duration(nanoseconds: int) -> str:
    """Return a duration without units that are zero at its end: ``24h``."""
    text = format_duration(nanoseconds)
    for end in ("0s", "0m"):
        if text.endswith(end) and text[-3:-2].isalpha():
            text = text.removesuffix(end)
    return text


def _add_setting_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--agent-config",
        metavar="FILE",
        help=f"the agent's config (default: {CONFIG_VARIABLE}, else {DEFAULT_CONFIG} if it exists)",
    )
    group = parser.add_argument_group("advanced: settings, which override the environment and the config")
    for name in NAMES:
        metavar, text = HELP[name]
        group.add_argument(
            f"--{flag_of(name)}",
            *KUBELET_FLAGS.get(name, ()),
            metavar=metavar,
            help=f"{text} (default: {default_of(name)})",
            dest=name,
        )


def _add_socket_argument(parser: ArgumentParser) -> None:
    """Declare where the agent listens."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"the agent's socket (default: {SOCKET_VARIABLE}, else that of the agent's config, else the usual place)",
    )


def _given_settings(args: Namespace) -> Given:
    """Return the flags and the environment of this command."""
    flags = {name: text for name in NAMES if (text := getattr(args, name)) is not None}
    return Given(flags=flags, config_file=args.agent_config, environ=os.environ)


def _socket_path(args: Namespace) -> str:
    """Return where the agent is expected; raise WrongUsage if KEYFERRY_AGENT names no socket."""
    chosen: str = args.socket or ""
    try:
        return chosen or find_agent_socket(Given(environ=os.environ))
    except EnvironmentProblem as problem:
        raise WrongUsage(str(problem)) from None


def _run_run(args: Namespace) -> int:
    if sys.platform != "linux":
        raise EnvironmentProblem("the agent needs Linux, whose kernel tells who is calling")
    try:
        from keyferry.agent.log import AgentLog
        from keyferry.agent.process import run_agent
    except ImportError as error:
        raise EnvironmentProblem(str(error)) from None
    run_agent(_given_settings(args), AgentLog())
    return Exit.OK


_RUN = Command(
    summary="run the agent in the foreground",
    description="""\
Run the agent in the foreground, until SIGTERM or SIGINT; SIGHUP reloads. Its log goes to standard error.

Each setting comes from its option, else from the environment (KEYFERRY_AGENT_CACHE_ENTRIES for --cache-entries;
KEYFERRY_AGENT for --socket), else from the agent's config, else from the node, else from a default. Sockets
that systemd passes (LISTEN_FDS) are used in place of --socket. An agent that already listens is replaced without
a refused connection; its clients stay connected to it until you stop it.

With --page 127.0.0.1:PORT, the agent also serves a page for browsers on this machine: whether all is well, what
is cached and until when, the last requests and their reasons. It shows no secret, and opens only with a link from
'keyferry agent page'.

Plugins run as the agent's user, with its environment. The agent needs the extra 'agent', and Linux.""",
    examples="""\
examples:
  sudo keyferry agent run
  sudo keyferry agent run --log-level debug --log-format json
  sudo keyferry agent run --page 127.0.0.1:7475
  keyferry agent run --socket /tmp/me/agent.sock --config providers.yaml --bin-dir ./plugins""",
    add_arguments=_add_setting_arguments,
    run=_run_run,
)


def _add_status_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "json", "yaml"))
    _add_socket_argument(parser)
    parser.add_argument(
        "-w", "--watch", action="store_true", help="show it again every second, until interrupted"
    )
    parser.add_argument(
        "-a",
        "--all",
        action="store_true",
        help="show every provider, problem and caller, not the worst or last ones",
    )


def _run_status(args: Namespace) -> int:
    from keyferry.agent.management import AgentUnavailableError

    code = _show_status(args)
    while args.watch:
        sleep(_PAUSE_SECONDS)
        try:
            code = _show_status(args)
        except AgentUnavailableError as error:
            # It may be restarting.
            _print_status(str(error), args)
    return code


def _show_status(args: Namespace) -> int:
    from keyferry.agent.management import ask_for_document
    from keyferry.agent.status_text import StatusOptions, is_well, render_status

    path = _socket_path(args)
    answer = ask_for_document(path, "GET", "/v1/status")
    if args.output == "table":
        options = StatusOptions(
            columns=terminal_width(),
            rows=terminal_rows() if args.watch else 0,
            is_whole=args.all,
            has_commands=is_trusted(os.path.abspath(path)),
            page_command=shlex.join(("keyferry", "agent", "page", *socket_options(path, os.environ))),
        )
        text: object = render_status(answer, options)
    else:
        fields = {name: value for name, value in answer.items() if name not in ("apiVersion", "kind")}
        text = render_document(make_document("AgentStatus", **fields), args.output)
    _print_status(text, args)
    return Exit.OK if is_well(answer) else Exit.NO


def _print_status(text: object, args: Namespace) -> None:
    if args.watch and isinstance(sys.stdout, Output):
        sys.stdout.clear_screen()
    print(text, flush=args.watch)


_STATUS = Command(
    summary="show whether all is well, what is not, and each provider",
    description="""\
Show the agent's status: whether all is well, what is not, why, and the command that tells more; then each
provider with its state and what it has cached, the worst first, the next renewals, and who asked. 'keyferry
doctor --online' and the agent's page say the same. It contains no secret.

A provider is unstable if its last run worked and three of the last ten failed.

Exit code 0 means that all is well; 1 that a provider fails or is unstable, or that the last reload was refused and
the agent runs with an old config.""",
    examples="""\
examples:
  sudo keyferry agent status
  sudo keyferry agent status --watch
  sudo keyferry agent status -o json | jq '.health.problems[].text'""",
    add_arguments=_add_status_arguments,
    run=_run_status,
)


def _run_reload(args: Namespace) -> int:
    from keyferry.agent.management import ask_for_document

    answer = ask_for_document(_socket_path(args), "POST", "/v1/reload")
    problems, notes = answer.get("problems"), answer.get("notes")
    report(*(notes if isinstance(notes, list) else ()))
    if answer.get("applied") is True:
        report(f"reloaded, config hash {answer.get('hash')}")
        return Exit.OK
    report(*(problems if isinstance(problems, list) else ()), "the agent keeps its old config")
    return Exit.NO


_RELOAD = Command(
    summary="read all configs again",
    description="""\
Make the agent read all configs again, at once. A config with an error is refused, its problems are printed,
and the agent goes on with the old one. Answers of providers that have not changed stay cached.""",
    examples="""\
examples:
  sudo keyferry agent reload

exit codes: 0 the configs are in force; 1 they are refused; 3 there is no agent, or it refuses this user""",
    add_arguments=_add_socket_argument,
    run=_run_reload,
)


def _add_config_arguments(parser: ArgumentParser) -> None:
    add_output_argument(parser, ("table", "json", "yaml"))
    _add_setting_arguments(parser)


def _run_config(args: Namespace) -> int:
    settings = resolve_settings(_given_settings(args))
    report(*settings.notes)
    if args.output == "table":
        _print_settings(settings)
    else:
        print(render_document(_settings_document(settings), args.output))
    return Exit.OK


def _settings_document(settings: AgentSettings) -> dict[str, object]:
    config = settings.config
    return make_document(
        "AgentSettings",
        agentConfig=settings.config_file or None,
        settings=[
            {"name": name, "value": settings.shown(name), "from": settings.origins[name]}
            for name in NAMES
            if name in settings.values
        ],
        access=[
            _principals(rule) | {"registries": list(rule.registries), "everyRegistry": rule.every_registry}
            for rule in config.access or ()
        ],
        manage=[_principals(rule) for rule in config.manage or ()],
    )


def _principals(rule: AccessRule | ManageRule) -> dict[str, object]:
    return {"uids": list(rule.uids), "gids": list(rule.gids)}


def _print_settings(settings: AgentSettings) -> None:
    rows = [(name, settings.shown(name), settings.origins[name]) for name in NAMES if name in settings.values]
    print(table(("SETTING", "VALUE", "FROM"), rows))
    who = [("root and the agent's user", "every registry", "yes")]
    who += [
        (describe_users(rule), "every registry" if rule.every_registry else " ".join(rule.registries), "no")
        for rule in settings.config.access or ()
    ]
    who += [(describe_users(rule), "", "yes") for rule in settings.config.manage or ()]
    print()
    print(table(("WHO", "MAY ASK FOR", "MANAGES"), who))


_CONFIG = Command(
    summary="show every setting in force, and its origin",
    description="""\
Show every setting that 'keyferry agent run' with the same options would use, and where its value comes from;
then who may ask for which registries. Nothing is started. A config with an error is refused, with all its
problems.""",
    examples="""\
examples:
  keyferry agent config
  keyferry agent config --agent-config ./agent.yaml -o json | jq .access""",
    add_arguments=_add_config_arguments,
    run=_run_config,
)


def _add_page_arguments(parser: ArgumentParser) -> None:
    _add_socket_argument(parser)
    parser.add_argument("--open", action="store_true", help="open the link in a browser, as well")


def _run_page(args: Namespace) -> int:
    from keyferry.agent.management import ask_for_page_link

    url, until = ask_for_page_link(_socket_path(args), is_opened=args.open)
    print(url)
    report(f"the link works once, until {until}")
    if args.open and not webbrowser.open(url):
        report("no browser was found; open the link by hand")
    return Exit.OK


_PAGE = Command(
    summary="print a link to the agent's page, which works once",
    description="""\
Print a link to the agent's page: whether all is well, each provider, what is cached and until when, the last
requests and their reasons, reloads, who asked; and an explanation of any image from what is cached. The page
shows no secret, and looking at it runs no plugin.

The agent serves the page only if it was started with --page 127.0.0.1:PORT, and to browsers on its own machine.
Users who may manage the agent get a link. It works once, within a minute; the browser that opens it may see the
page for 12 hours, until the agent restarts or the user's right ends. From another machine, forward the port
under the same number (ssh -L 7475:127.0.0.1:7475 NODE), get the link on the node, and open it where you are.

With --open, the link is handed to a browser here, if the agent's socket is one of root or of this user. Other
users of this machine may see it among the running programs for a moment; it works once, and the link of a user
other than root is for this user alone.""",
    examples="""\
examples:
  sudo keyferry agent page
  keyferry agent page --open
  sudo keyferry agent run --page 127.0.0.1:7475

exit codes: 0 the link is printed; 3 there is no agent or no page, or it refuses this user""",
    add_arguments=_add_page_arguments,
    run=_run_page,
)


SUBCOMMANDS = {"run": _RUN, "status": _STATUS, "reload": _RELOAD, "config": _CONFIG, "page": _PAGE}
