"""Show every setting in force, and where its value comes from."""

from __future__ import annotations

from keyferry.agent.settings import NAMES, AgentSettings, resolve_settings
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.cli.agent.arguments import add_setting_arguments, given_settings
from keyferry.cli.exits import Exit
from keyferry.cli.options import add_output_argument
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Show every setting that 'keyferry agent run' with the same options would use, and where its value comes from;
then who may ask for which registries. Nothing is started. A config with an error is refused, with all its
problems."""

EXAMPLES = """\
examples:
  keyferry agent config
  keyferry agent config --agent-config ./agent.yaml -o json | jq .access"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry agent config``."""
    add_output_argument(parser, ("table", "json", "yaml"))
    add_setting_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the settings and the rules."""
    settings = resolve_settings(given_settings(args))
    report(*settings.notes)
    if args.output == "table":
        _print_table(settings)
    else:
        print(render_document(_document(settings), args.output))
    return Exit.OK


def _document(settings: AgentSettings) -> dict[str, object]:
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


def _print_table(settings: AgentSettings) -> None:
    rows = [(name, settings.shown(name), settings.origins[name]) for name in NAMES if name in settings.values]
    print(table(("SETTING", "VALUE", "FROM"), rows))
    who = [("root and the agent's user", "every registry", "yes")]
    who += [
        (_who(rule), "every registry" if rule.every_registry else " ".join(rule.registries), "no")
        for rule in settings.config.access or ()
    ]
    who += [(_who(rule), "", "yes") for rule in settings.config.manage or ()]
    print()
    print(table(("WHO", "MAY ASK FOR", "MANAGES"), who))


def _who(rule: AccessRule | ManageRule) -> str:
    return " ".join((*(f"uid:{uid}" for uid in rule.uids), *(f"gid:{gid}" for gid in rule.gids)))
