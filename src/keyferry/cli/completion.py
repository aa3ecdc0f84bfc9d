"""The completion script for bash, zsh or fish."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from keyferry.cli.frame.commands import COMMANDS, Command, Exit
from keyferry.cli.frame.parser import make_parser
from keyferry.show.writer import Lines

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a completion script, generated from the commands and options of this version."""

EXAMPLES = """\
examples:
  source <(keyferry completion bash)                                      # this shell; or ~/.bashrc
  keyferry completion zsh > "${fpath[1]}/_keyferry"                       # then start a new zsh
  keyferry completion fish > ~/.config/fish/completions/keyferry.fish"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry completion``."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(args: "argparse.Namespace") -> int:
    """Print the completion script for the chosen shell."""
    print(Lines({"bash": bash, "zsh": zsh, "fish": fish}[args.shell]()), end="")
    return Exit.OK


Option = tuple[str, str, tuple[str, ...], bool]


def options_of(command: str) -> list[Option]:
    """Return the long options of *command* and its subcommands: name, help, choices, whether it takes a value."""
    found = {option[0]: option for module in _modules(command) for option in _options(command, module)}
    return list(found.values())


def _modules(command: str) -> list[ModuleType]:
    module = import_module(COMMANDS[command].module)
    return [module, *(import_module(entry.module) for entry in _subcommands(module).values())]


def _subcommands(module: ModuleType) -> Mapping[str, Command]:
    return getattr(module, "SUBCOMMANDS", None) or {}


def _options(command: str, module: ModuleType) -> list[Option]:
    parser = make_parser(f"keyferry {command}", module)
    found = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        names = [name for name in action.option_strings if name.startswith("--")]
        choices = tuple(map(str, action.choices or ()))
        takes_value = action.nargs != 0
        found += [(name, (action.help or "").split(" (")[0], choices, takes_value) for name in names]
    return found


def words_of(command: str) -> tuple[str, ...]:
    """Return the known values of a command's first argument, such as its subcommands."""
    if command == "completion":
        return ("bash", "zsh", "fish")
    return tuple(_subcommands(import_module(COMMANDS[command].module)))


def bash() -> str:
    """Return the completion script for bash."""
    cases = "\n".join(_bash_case(command) for command in COMMANDS)
    values = "\n".join(
        f"        {command}:{name}) COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$word\")); return ;;"
        for command in COMMANDS
        for name, _, choices, _ in options_of(command)
        if choices
    )
    return f"""\
# completion of keyferry for bash
_keyferry() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{" ".join(COMMANDS)} --help --version' -- "$word"))
        return
    fi
    [ "$previous" = -o ] && previous=--output
    case "$command:$previous" in
{values}
    esac
    case "$command:$COMP_CWORD:$word" in
{cases}
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -o bashdefault -F _keyferry keyferry
"""


def _bash_case(command: str) -> str:
    names = " ".join(name for name, _, _, _ in options_of(command))
    lines = [f"    {command}:*:-*) COMPREPLY=($(compgen -W '{names}' -- \"$word\")) ;;"]
    if words_of(command):
        lines.append(
            f"    {command}:2:*) COMPREPLY=($(compgen -W '{' '.join(words_of(command))}' -- \"$word\")) ;;"
        )
    return "\n".join(lines)


def zsh() -> str:
    """Return the completion script for zsh."""
    commands = "\n".join(f"    '{name}:{_plain(entry.summary)}'" for name, entry in COMMANDS.items())
    cases = "\n".join(_zsh_case(command) for command in COMMANDS)
    return f"""\
#compdef keyferry
# completion of keyferry for zsh
_keyferry() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
{cases}
  esac
}}
if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi
"""


def _zsh_case(command: str) -> str:
    specs = [_zsh_option(*option) for option in options_of(command)]
    words = [f"'1:word:({' '.join(words_of(command))})'"] if words_of(command) else []
    joined = " \\\n        ".join([*specs, *words, "'*:file:_files'"])
    # The command's own word is removed, so that _arguments completes the options after it.
    return f"    {command})\n      shift words; (( CURRENT-- ))\n      _arguments \\\n        {joined} ;;"


def _zsh_option(name: str, text: str, choices: tuple[str, ...], takes_value: bool) -> str:  # noqa: FBT001 - a row of options_of
    value = f":value:({' '.join(choices)})" if choices else ":value:_files" if takes_value else ""
    return f"'*{name}[{_plain(text)}]{value}'"


def fish() -> str:
    """Return the completion script for fish."""
    lines = ["# completion of keyferry for fish"]
    for name, entry in COMMANDS.items():
        summary = _plain(entry.summary)
        lines.append(f"complete -c keyferry -n __fish_use_subcommand -f -a {name} -d '{summary}'")
    for command in COMMANDS:
        seen = f"-n '__fish_seen_subcommand_from {command}'"
        if words_of(command):
            lines.append(f"complete -c keyferry {seen} -f -a '{' '.join(words_of(command))}'")
        lines += [_fish_option(seen, *option) for option in options_of(command)]
    return "\n".join(lines) + "\n"


def _fish_option(seen: str, name: str, text: str, choices: tuple[str, ...], takes_value: bool) -> str:  # noqa: FBT001 - a row of options_of
    value = f" -x -a '{' '.join(choices)}'" if choices else " -r" if takes_value else ""
    return f"complete -c keyferry {seen} -l {name.removeprefix('--')}{value} -d '{_plain(text)}'"


def _plain(text: str) -> str:
    """Return a help text without the characters that a shell would interpret."""
    return "".join(char for char in text if char not in "'[]:\\`$\"\n")
