"""The completion script for bash."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.cli.completion.words import CONTEXTS, LIST_CONTEXTS, CompletedCommand, all_commands
from keyferry.cli.run import COMMANDS

__all__ = ["bash"]


def bash() -> str:
    """Return the completion script for bash."""
    commands = all_commands()
    groups = [command for command in commands if command.subcommands]
    return f"""\
# completion of keyferry for bash
_keyferry() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=({_words((*COMMANDS, "--help", "--version"))})
        return
    fi
    case "$COMP_CWORD:$command" in
{_lines(_case(f"2:{group.path}", (*group.subcommands, "--help")) for group in groups)}
    esac
    case "$command" in
    {"|".join(group.path for group in groups)}) command="$command ${{COMP_WORDS[2]}}" ;;
    esac
    [ "$previous" = -o ] && previous=--output
    case "$command:$previous" in
{_lines(line for command in commands for line in _value_cases(command))}
    esac
    case "$command:$word" in
{_lines(_case(f"{each.path}:-*", _names(each), quoted=False) for each in commands if not each.subcommands)}
    esac
    case "$command:$COMP_CWORD" in
{_lines(_first_cases(commands))}
    esac
    COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -o bashdefault -F _keyferry keyferry
"""


def _names(command: CompletedCommand) -> tuple[str, ...]:
    return tuple(option.name for option in command.options)


def _value_cases(command: CompletedCommand) -> Iterator[str]:
    for option in command.options:
        if option.values:
            yield _case(f"{command.path}:{option.name}", option.values)


def _first_cases(commands: tuple[CompletedCommand, ...]) -> Iterator[str]:
    """Yield the cases of first arguments with known values, which files may follow."""
    for command in commands:
        if command.values:
            yield _case(f"{command.path}:{len(command.words) + 1}", command.values)


def _case(pattern: str, values: tuple[str, ...], *, quoted: bool = True) -> str:
    """Return one case; a pattern with a space is quoted up to its wildcard."""
    head, star, _ = pattern.partition("*")
    shown = f'"{head}"{star}' if quoted or " " in head else pattern
    return f"    {shown}) COMPREPLY=({_words(values)}); return ;;"


def _words(values: tuple[str, ...]) -> str:
    listed = f"$({LIST_CONTEXTS})" if values == CONTEXTS else " ".join(values)
    quote = '"' if values == CONTEXTS else "'"
    return f'$(compgen -W {quote}{listed}{quote} -- "$word")'


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines)
