"""The completion script for zsh."""

from __future__ import annotations

from keyferry.cli.completion.words import (
    CONTEXTS,
    LIST_CONTEXTS,
    CompletedCommand,
    Option,
    all_commands,
    plain,
)
from keyferry.cli.run import COMMANDS

__all__ = ["zsh"]

_CONTEXTS = "_keyferry_contexts"


def zsh() -> str:
    """Return the completion script for zsh."""
    commands = all_commands()
    groups = [command for command in commands if command.subcommands]
    summaries = {name: entry.summary for name, entry in COMMANDS.items()}
    return f"""\
#compdef keyferry
# completion of keyferry for zsh
{_CONTEXTS}() {{
  local -a found
  found=(${{(f)"$({LIST_CONTEXTS})"}})
  compadd -a found
}}
_keyferry() {{
  local -a commands
  if (( CURRENT == 2 )); then
{_described(summaries)}
    return
  fi
  local command="$words[2]"
  shift words; (( CURRENT-- ))
  case "$command" in
{chr(10).join(_group_case(group) for group in groups)}
  esac
  case "$command" in
{chr(10).join(_arguments_case(command) for command in commands if not command.subcommands)}
  esac
}}
if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi
"""


def _described(summaries: dict[str, str]) -> str:
    lines = "\n".join(f"      '{name}:{plain(summary)}'" for name, summary in summaries.items())
    return f"    commands=(\n{lines}\n    )\n    _describe command commands"


def _group_case(group: CompletedCommand) -> str:
    """Return the case of a command with subcommands: describe them, or go on with the chosen one."""
    return f"""\
  {group.path})
    if (( CURRENT == 2 )); then
{_described(dict(group.subcommands))}
      return
    fi
    command="$command $words[2]"
    shift words; (( CURRENT-- )) ;;"""


def _arguments_case(command: CompletedCommand) -> str:
    first = f"'1:word:({' '.join(command.values)})'"
    specs = [*map(_option, command.options), *([first] if command.values else []), "'*:file:_files'"]
    return f'  "{command.path}")\n    _arguments \\\n      ' + " \\\n      ".join(specs) + " ;;"


def _option(option: Option) -> str:
    value = ""
    if option.values == CONTEXTS:
        value = f":context:{_CONTEXTS}"
    elif option.values:
        value = f"{':' if option.takes_value else '::'}value:({' '.join(option.values)})"
    elif option.takes_value:
        value = ":value:_files"
    return f"'*{option.name}[{plain(option.help)}]{value}'"
