"""What may follow the words of a command line that is being typed: commands, options, values, names of a cluster."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from keyferry._core.values import Value, replace
from keyferry.cli.flags import make_flags_parser, split_command
from keyferry.cli.parser import make_parser
from keyferry.cli.run import COMMANDS, load_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.session import ClusterSession

# What the shell does with the candidates, in the numbers of kubectl's own completion.
FILES, NO_SPACE, NO_FILES = 0, 2, 4
# The time for the user's plugin, and again for the server.
_SECONDS = 3.0
# The commands whose IMAGE may be an object of a cluster.
_WITH_OBJECTS = (["explain"], ["can-pull"])
# Options whose value is optional, or a word that follows.
_OPTIONAL = (0, "?")
# A name of a kubeconfig that a shell takes as it is.
_PLAIN_NAME = r"\w[\w.@:/+=,%~#-]{0,252}"


class Candidates(Value):
    """Words with their descriptions, and what the shell does with them: FILES, NO_SPACE, NO_FILES or a sum."""

    found: tuple[tuple[str, str], ...] = ()
    directive: int = NO_FILES

    def with_prefix(self, start: str, word: str) -> Candidates:
        """Return those that begin with *word*, each after *start*."""
        found = ((f"{start}{name}", text) for name, text in self.found if name.startswith(word))
        return replace(self, found=tuple(found))


class _Line:
    """The words before the one that is completed, read as argparse reads them.

    *command* has the words of the command, *options* the values of its options by destination. *pending* is the option
    whose value comes next, *last* the option before, if it may be followed by a value; after ``--``, *is_rest*.
    """

    def __init__(self, before: Sequence[str]) -> None:
        self.command, words = split_command(before)
        self.subcommands = load_command(*self.command).subcommands if self.command else {}
        self.parser: ArgumentParser = make_flags_parser()
        if self.command and not self.subcommands:
            self.parser = make_parser("keyferry", load_command(*self.command))
        self.known = {name: action for action in self.actions for name in action.option_strings}
        self.options: dict[str, object] = {action.dest: action.default for action in self.known.values()}
        self.arguments: list[str] = []
        self.pending: Action | None = None
        self.last: Action | None = None
        self.is_rest = False
        for word in words:
            self._take(word)

    @property
    def actions(self) -> list[Action]:
        """The options and arguments of the command."""
        return self.parser._actions  # noqa: SLF001 - argparse has no public list of them

    def _take(self, word: str) -> None:
        self.last = None
        if self.pending is not None:
            self._set(self.pending, word)
            self.pending = None
        elif self.is_rest or word == "--":
            self.is_rest = True
        elif (option := self._option_of(word)) is None:
            self.arguments += [] if word.startswith("-") else [word]
        elif option.nargs in _OPTIONAL:
            self._set(option, "")
            self.last = option
        elif value := _attached(word):
            self._set(option, value)
        else:
            self.pending = option

    def _option_of(self, word: str) -> Action | None:
        """Return the option in *word*, which may have its value, as in ``--as=bob`` and ``-nshop``."""
        found = self.known.get(word.partition("=")[0])
        return found if found or word.startswith("--") else self.known.get(word[:2])

    def _set(self, option: Action, text: str) -> None:
        """Set the value of an option as argparse does."""
        value: object = text
        if option.nargs == 0:
            value = option.const
        elif callable(option.type):
            value = option.type(text)
        before = self.options[option.dest]
        self.options[option.dest] = [*before, value] if isinstance(before, list) else value


def _attached(word: str) -> str:
    """Return the value in the same word as its option; empty if it is the next word."""
    return word.partition("=")[2] if word.startswith("--") else word[2:].removeprefix("=")


def complete(words: Sequence[str]) -> Candidates:
    """Return the candidates for the last of *words*, which were typed after the program.

    No plugin is run that could prompt, that the policy forbids, or that an untrusted kubeconfig names. Raises
    KeyferryError if a cluster is asked in vain, and ArgumentTypeError for the value of an option.
    """
    *before, word = words or ("",)
    line = _Line(before)
    if line.is_rest:
        return Candidates(directive=FILES)
    if line.pending is not None:
        return _values(line, line.pending, word).with_prefix("", word)
    if line.last is not None and (known := _catalogue(line.command, line.last)):
        return Candidates(found=known).with_prefix("", word)
    name, equals, value = word.partition("=")
    if word.startswith("--") and equals:
        option = line.known.get(name)
        return Candidates() if option is None else _values(line, option, value).with_prefix(f"{name}=", value)
    if word.startswith("-"):
        return _option_names(line).with_prefix("", word)
    return _arguments(line, word).with_prefix("", word)


def _option_names(line: _Line) -> Candidates:
    offers = [
        (name, _in_short(action.help))
        for action in line.actions
        for name in action.option_strings
        if name.startswith("--")
    ]
    if not line.command:
        offers.append(("--version", "show the version and exit"))
    if "--help" not in dict(offers):
        offers.append(("--help", "show the help and exit"))
    return Candidates(found=tuple(offers))


def _in_short(text: str | None) -> str:
    """Return a help text up to its details, on one line."""
    return " ".join((text or "").split(" (")[0].split())


def _arguments(line: _Line, word: str) -> Candidates:
    """Return the candidates for an argument: a command, or what the next argument of the command may be.

    There are none after a command that does not exist.
    """
    if not line.command and line.arguments:
        return Candidates()
    if not line.command:
        return Candidates(found=tuple((name, entry.summary) for name, entry in COMMANDS.items()))
    if line.subcommands:
        return Candidates(found=tuple((name, each.summary) for name, each in line.subcommands.items()))
    positional = [action for action in line.actions if not action.option_strings]
    at = len(line.arguments)
    if at < len(positional):
        return _values(line, positional[at], word)
    takes_more = bool(positional) and positional[-1].nargs in ("*", "+", "...")
    # Files may follow a first argument with known values.
    return Candidates(directive=FILES if takes_more else NO_FILES)


def _values(line: _Line, action: Action, word: str) -> Candidates:
    """Return the values that *action* may have; files if they are not known."""
    command, is_option = line.command, bool(action.option_strings)
    if action.choices is not None:
        return _words(map(str, action.choices))
    if is_option and action.dest in ("context", "cluster", "user"):
        return _words(_kubeconfig_names(line, action.dest))
    if is_option and action.dest in ("namespace", "on_node"):
        from keyferry.workloads.names import list_namespaces, list_nodes

        list_names = list_nodes if action.dest == "on_node" else list_namespaces
        return _words(list_names(_open_session(line), timeout_seconds=_SECONDS))
    if known := _catalogue(command, action):
        return Candidates(found=known)
    if command in _WITH_OBJECTS and action.dest == "image":
        return _objects(line, word)
    return Candidates(directive=FILES if action.nargs != 0 else NO_FILES)


def _words(words: Iterable[str]) -> Candidates:
    return Candidates(found=tuple((word, "") for word in words))


def _catalogue(command: list[str], action: Action) -> tuple[tuple[str, str], ...]:
    """Return the plugins or the codes that *action* may be, with what they are; none for anything else."""
    if command == ["plugin", "install"] and not action.option_strings:
        from keyferry.kit.install import PLUGINS

        return tuple((name, plugin.about) for name, plugin in PLUGINS.items())
    if action.metavar != "CODE" and "--list" not in action.option_strings:
        return ()
    if command[:1] == ["plugin"]:
        from keyferry.kit.checks.catalogue import CHECKS

        return tuple((code, check.title) for code, check in CHECKS.items())
    from keyferry.lint.catalogue import CODES

    return tuple((name, code.title) for name, code in CODES.items())


def _kubeconfig_names(line: _Line, kind: str) -> list[str]:
    """Return the names of contexts, clusters or users; those that a shell would change or run are left out."""
    from keyferry.clusters.kubeconfig.files import load_kubeconfig

    path = line.options.get("kubeconfig")
    names: Iterable[str] = vars(load_kubeconfig(None if path is None else str(path)).config)[f"{kind}s"]
    return sorted(name for name in names if re.fullmatch(_PLAIN_NAME, name))


def _objects(line: _Line, word: str) -> Candidates:
    """Return kinds of objects, or after a kind and a slash the names of its objects."""
    from keyferry.workloads.names import list_names
    from keyferry.workloads.objects import parse_target, spell_kinds

    kind, slash, _ = word.partition("/")
    if not slash:
        kinds = tuple((f"{name}/", f"a {each}") for name, each in spell_kinds(word))
        return Candidates(found=kinds, directive=NO_FILES + NO_SPACE)
    target = parse_target(f"{kind}/name")
    if target is None:
        return Candidates()
    session = _open_session(line)
    names = list_names(session, target.kind, session.namespace, timeout_seconds=_SECONDS)
    return _words(f"{kind}/{name}" for name in names)


def _open_session(line: _Line) -> ClusterSession:
    """Return a session for the options so far, in which nothing prompts and nothing takes long."""
    from keyferry.cli.options import cluster_options
    from keyferry.clusters.session import open_cluster

    options = replace(cluster_options(Namespace(**line.options)), request_timeout_seconds=_SECONDS)
    return open_cluster(options, timeout_seconds=_SECONDS, stdin_unavailable=True)
