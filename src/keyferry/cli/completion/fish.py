"""The completion script for fish."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.cli.completion.words import (
    CONTEXTS,
    LIST_CONTEXTS,
    CompletedCommand,
    Option,
    all_commands,
    plain,
)
from keyferry.cli.run import COMMANDS

__all__ = ["fish"]

# Whether the words after the program begin with the given ones; a subcommand may have the name of a command.
_AT = """\
function __keyferry_at
    set -l words (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
function __keyferry_next
    __keyferry_at $argv; and test (count (commandline -opc)) -eq (math (count $argv) + 1)
end"""


def fish() -> str:
    """Return the completion script for fish."""
    lines = ["# completion of keyferry for fish", _AT]
    for name, entry in COMMANDS.items():
        lines.append(
            f"complete -c keyferry -n __fish_use_subcommand -f -a {name} -d '{plain(entry.summary)}'"
        )
    for command in all_commands():
        lines += _command_lines(command)
    return "\n".join(lines) + "\n"


def _command_lines(command: CompletedCommand) -> Iterator[str]:
    following = f"-n '__keyferry_next {command.path}'"
    for name, summary in command.subcommands.items():
        yield f"complete -c keyferry {following} -f -a {name} -d '{plain(summary)}'"
    if command.values:
        yield f"complete -c keyferry {following} -f -a '{' '.join(command.values)}'"
    if not command.subcommands:
        yield from (_option_line(f"-n '__keyferry_at {command.path}'", each) for each in command.options)


def _option_line(condition: str, option: Option) -> str:
    value = ""
    if option.values == CONTEXTS:
        value = f" -x -a '({LIST_CONTEXTS})'"
    elif option.values and not option.takes_value:
        return _followed_line(condition, option)
    elif option.values:
        value = f" -x -a '{' '.join(option.values)}'"
    elif option.takes_value:
        value = " -r"
    return f"complete -c keyferry {condition} {_spelled(option)}{value} -d '{plain(option.help)}'"


def _followed_line(condition: str, option: Option) -> str:
    """Return the lines of an option without a value, and of the known arguments that may follow it."""
    alone = f"complete -c keyferry {condition} {_spelled(option)} -d '{plain(option.help)}'"
    seen = f"{condition[:-1]}; and __fish_contains_opt {option.name.removeprefix('--')}'"
    return f"{alone}\ncomplete -c keyferry {seen} -f -a '{' '.join(option.values)}'"


def _spelled(option: Option) -> str:
    short = f"-s {option.short.removeprefix('-')} " if option.short else ""
    return f"{short}-l {option.name.removeprefix('--')}"
