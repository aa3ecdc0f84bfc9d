"""``keyferry completion``: a script for bash, zsh or fish, written from the parsers of this version."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from keyferry._core.values import Value
from keyferry.cli.exits import Exit
from keyferry.cli.parser import make_parser
from keyferry.cli.run import COMMANDS, load_command
from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.install import PLUGINS
from keyferry.lint.catalogue import CODES
from keyferry.show.writer import Lines

DESCRIPTION = """\
Print a completion script, generated from the commands and options of this version. It completes commands,
subcommands, options, their values, plugins, codes and contexts; zsh and fish also show a description of each."""

EXAMPLES = """\
examples:
  source <(keyferry completion bash)                                      # this shell; or ~/.bashrc
  keyferry completion zsh > "${fpath[1]}/_keyferry"                       # then start a new zsh
  keyferry completion fish > ~/.config/fish/completions/keyferry.fish"""

# The values of an option that only the shell can find, when it completes.
_CONTEXTS = ("contexts",)
_LIST_CONTEXTS = "keyferry kube contexts -o name 2>/dev/null"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry completion``."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(args: argparse.Namespace) -> int:
    """Print the completion script for the chosen shell."""
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    print(Lines(write(_all_commands())), end="")
    return Exit.OK


class _Option(Value):
    """A long option, its short form if it has one, its help, and its values.

    *values* is _CONTEXTS for the contexts of the kubeconfig, and empty if they are not known. An option that takes no
    value and has some is followed by one of them as an argument.
    """

    name: str
    short: str
    help: str
    takes_value: bool
    values: tuple[str, ...]


class _Command(Value):
    """A command by its words; the summaries of its subcommands, and the known *values* of its first argument."""

    words: tuple[str, ...]
    options: tuple[_Option, ...]
    subcommands: Mapping[str, str]
    values: tuple[str, ...]

    @property
    def path(self) -> str:
        """The words of the command, as typed."""
        return " ".join(self.words)


def _all_commands() -> list[_Command]:
    """Return all commands, each before its subcommands."""
    found = []
    for name in COMMANDS:
        group = _read((name,))
        found += [group, *(_read((name, below)) for below in group.subcommands)]
    return found


def _read(words: tuple[str, ...]) -> _Command:
    command = load_command(*words)
    actions = make_parser("keyferry", command)._actions  # noqa: SLF001 - argparse has no public list of them
    options = [option for action in actions for option in _options(words, action)]
    arguments = [_values(words, action) for action in actions if not action.option_strings]
    return _Command(
        words=words,
        options=tuple(options),
        subcommands={name: each.summary for name, each in command.subcommands.items()},
        values=arguments[0] if arguments and not command.subcommands else (),
    )


def _options(words: tuple[str, ...], action: argparse.Action) -> Iterator[_Option]:
    short = next((name for name in action.option_strings if not name.startswith("--")), "")
    for name in action.option_strings:
        if name.startswith("--"):
            yield _Option(
                name=name,
                short=short,
                help=_plain((action.help or "").split(" (")[0]),
                takes_value=action.nargs != 0,
                values=_values(words, action),
            )


def _values(words: tuple[str, ...], action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.dest == "context":
        return _CONTEXTS
    if action.metavar == "CODE" or "--list" in action.option_strings:
        return tuple(CHECKS if words[0] == "plugin" else CODES)
    if words == ("plugin", "install") and not action.option_strings:
        return tuple(PLUGINS)
    return ()


def _plain(text: str) -> str:
    """Return a help text without the characters that a shell would interpret."""
    return "".join(char for char in text if char not in "'[]:\\`$\"\n")


def _bash(commands: Sequence[_Command]) -> str:
    groups = [each for each in commands if each.subcommands]
    subcommands = [_bash_case(f'"2:{each.path}"', (*each.subcommands, "--help")) for each in groups]
    values = [
        _bash_case(f'"{each.path}:{option.name}"', option.values)
        for each in commands
        for option in each.options
        if option.values
    ]
    names = [
        _bash_case(f'"{each.path}:"-*', tuple(option.name for option in each.options))
        for each in commands
        if not each.subcommands
    ]
    # Files may follow a first argument with known values.
    arguments = [
        _bash_case(f'"{each.path}:{len(each.words) + 1}"', each.values) for each in commands if each.values
    ]
    return f"""\
# completion of keyferry for bash
_keyferry() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=({_bash_words((*COMMANDS, "--help", "--version"))})
        return
    fi
    case "$COMP_CWORD:$command" in
{_lines(subcommands)}
    esac
    case "$command" in
    {"|".join(group.path for group in groups)}) command="$command ${{COMP_WORDS[2]}}" ;;
    esac
    [ "$previous" = -o ] && previous=--output
    case "$command:$previous" in
{_lines(values)}
    esac
    case "$command:$word" in
{_lines(names)}
    esac
    case "$command:$COMP_CWORD" in
{_lines(arguments)}
    esac
    COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -o bashdefault -F _keyferry keyferry
"""


def _bash_case(pattern: str, values: tuple[str, ...]) -> str:
    return f"    {pattern}) COMPREPLY=({_bash_words(values)}); return ;;"


def _bash_words(values: tuple[str, ...]) -> str:
    words = f'"$({_LIST_CONTEXTS})"' if values == _CONTEXTS else f"'{' '.join(values)}'"
    return f'$(compgen -W {words} -- "$word")'


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _zsh(commands: Sequence[_Command]) -> str:
    groups = [_zsh_group(each) for each in commands if each.subcommands]
    arguments = [_zsh_arguments(each) for each in commands if not each.subcommands]
    return f"""\
#compdef keyferry
# completion of keyferry for zsh
_keyferry_contexts() {{
  local -a found
  found=(${{(f)"$({_LIST_CONTEXTS})"}})
  compadd -a found
}}
_keyferry() {{
  local -a commands
  if (( CURRENT == 2 )); then
{_zsh_described({name: entry.summary for name, entry in COMMANDS.items()})}
    return
  fi
  local command="$words[2]"
  shift words; (( CURRENT-- ))
  case "$command" in
{_lines(groups)}
  esac
  case "$command" in
{_lines(arguments)}
  esac
}}
if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi
"""


def _zsh_described(summaries: Mapping[str, str]) -> str:
    lines = [f"      '{name}:{_plain(summary)}'" for name, summary in summaries.items()]
    return f"    commands=(\n{_lines(lines)}\n    )\n    _describe command commands"


def _zsh_group(group: _Command) -> str:
    """Return the case of a command with subcommands: describe them, or go on with the chosen one."""
    return f"""\
  {group.path})
    if (( CURRENT == 2 )); then
{_zsh_described(group.subcommands)}
      return
    fi
    command="$command $words[2]"
    shift words; (( CURRENT-- )) ;;"""


def _zsh_arguments(command: _Command) -> str:
    first = [f"'1:word:({' '.join(command.values)})'"] if command.values else []
    specs = [*map(_zsh_option, command.options), *first, "'*:file:_files'"]
    return f'  "{command.path}")\n    _arguments \\\n      ' + " \\\n      ".join(specs) + " ;;"


def _zsh_option(option: _Option) -> str:
    value = ""
    if option.values == _CONTEXTS:
        value = ":context:_keyferry_contexts"
    elif option.values:
        value = f"{':' if option.takes_value else '::'}value:({' '.join(option.values)})"
    elif option.takes_value:
        value = ":value:_files"
    return f"'*{option.name}[{option.help}]{value}'"


# Whether the words after the program begin with the given ones; a subcommand may have the name of a command.
_FISH_FUNCTIONS = """\
function __keyferry_at
    set -l words (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
function __keyferry_next
    __keyferry_at $argv; and test (count (commandline -opc)) -eq (math (count $argv) + 1)
end"""


def _fish(commands: Sequence[_Command]) -> str:
    lines = ["# completion of keyferry for fish", _FISH_FUNCTIONS]
    for name, entry in COMMANDS.items():
        lines.append(_fish_line("__fish_use_subcommand", f"-f -a {name} -d '{_plain(entry.summary)}'"))
    for command in commands:
        following = f"'__keyferry_next {command.path}'"
        for name, summary in command.subcommands.items():
            lines.append(_fish_line(following, f"-f -a {name} -d '{_plain(summary)}'"))
        if command.values:
            lines.append(_fish_line(following, f"-f -a '{' '.join(command.values)}'"))
        if not command.subcommands:
            lines += (line for option in command.options for line in _fish_option(command, option))
    return _lines(lines) + "\n"


def _fish_option(command: _Command, option: _Option) -> Iterator[str]:
    """Yield the line of an option, and that of the known arguments that may follow it if it takes no value."""
    name = option.name.removeprefix("--")
    spelled = f"-s {option.short.removeprefix('-')} -l {name}" if option.short else f"-l {name}"
    values = f"({_LIST_CONTEXTS})" if option.values == _CONTEXTS else " ".join(option.values)
    value = ""
    if option.takes_value:
        value = f" -x -a '{values}'" if values else " -r"
    at = f"__keyferry_at {command.path}"
    yield _fish_line(f"'{at}'", f"{spelled}{value} -d '{option.help}'")
    if values and not option.takes_value:
        yield _fish_line(f"'{at}; and __fish_contains_opt {name}'", f"-f -a '{values}'")


def _fish_line(condition: str, rest: str) -> str:
    return f"complete -c keyferry -n {condition} {rest}"
