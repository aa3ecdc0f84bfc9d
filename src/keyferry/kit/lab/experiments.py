"""One request to a plugin, the environment of its run, and the shell command that repeats it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from keyferry._core.secrets import MASK, mask_arguments
from keyferry._core.values import Value, field
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.kit.plugin import PluginKind, PluginUnderTest

__all__ = [
    "EVERY_EXPERIMENT",
    "NORMAL",
    "Experiment",
    "Family",
    "Surroundings",
    "environment",
    "limit_for",
    "repeat_command",
    "repeat_variables",
]

# Variables that place a user's files; the plugin does not get them.
_PLACES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_KEPT = ("PATH",)
# The variable of the shell that a command takes the service account token from.
_TOKEN = "SERVICE_ACCOUNT_TOKEN"  # noqa: S105 - a name
# A plugin refuses invalid input before any slow work, so that a shorter limit is enough.
_SOON_SECONDS = 15.0


class Family(StrEnum):
    """The family of an experiment: rules select experiments by it, or by a name."""

    NORMAL = "normal requests, which must have a valid response"
    VERSION = "the normal request in another version"
    IMAGE_NAME = "an unusual image name"
    LOCALE = "the normal request in another locale"
    SIMULTANEOUS = "several normal requests at once"
    LAST = "the normal request, after the responses that are compared with its first one"
    OTHER = "an experiment that is selected by its name"


# What checks need: the normal requests, or all experiments.
NORMAL: tuple[str, ...] = (Family.NORMAL,)
EVERY_EXPERIMENT: tuple[str, ...] = tuple(Family)


class Experiment(Value):
    """One run. *shown* is its input, or exec info, without secrets; *feed* is a shell command for a long input.

    *env* is set and *unset* is removed last. A *bare* run has only PATH and the plugin's own variables.
    """

    name: str
    stdin: bytes | None = field(default=b"", repr=False)
    shown: bytes = field(default=b"", repr=False)
    feed: str = ""
    image: str = ""
    api_version: str = ""
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    unset: tuple[str, ...] = ()
    is_bare: bool = False
    cwd: str = ""
    prefix: tuple[str, ...] = ()
    has_reader: bool = True
    is_input_watched: bool = False
    is_sampled: bool = False
    is_patient: bool = False
    family: Family = Family.OTHER


class Surroundings(Value):
    """The environment that all runs share: an empty HOME and TMPDIR, and this process's variables."""

    home: str
    temporary: str
    environ: Mapping[str, str] = field(repr=False)


def limit_for(plugin: PluginUnderTest, experiment: Experiment) -> float:
    """Return the time limit of an experiment, in seconds."""
    is_question = experiment.is_patient or experiment.family is Family.NORMAL
    return plugin.timeout_seconds if is_question else min(plugin.timeout_seconds, _SOON_SECONDS)


def environment(plugin: PluginUnderTest, around: Surroundings, experiment: Experiment) -> dict[str, str]:
    """Return all variables of a run."""
    environ = {name: around.environ[name] for name in _KEPT if name in around.environ}
    if not experiment.is_bare:
        environ = {name: value for name, value in around.environ.items() if name not in _PLACES}
        environ |= {"HOME": around.home, "TMPDIR": around.temporary}
    environ |= {name: value for name, value in plugin.env if name}
    environ |= dict(experiment.env)
    for name in experiment.unset:
        environ.pop(name, None)
    return environ


def repeat_command(plugin: PluginUnderTest, experiment: Experiment, secrets: Collection[str] = ()) -> str:
    """Return the shell command that repeats an experiment, with variables of the shell in place of secrets.

    *secrets* are those of the plugin's responses.
    """
    program = (*experiment.prefix, plugin.path)
    words = [
        *_env_words(plugin, experiment, secrets),
        *map(shlex.quote, program),
        *_argument_words(plugin.args, secrets),
    ]
    command = " ".join(words)
    if experiment.cwd:
        command = f"cd {shlex.quote(experiment.cwd)} && {command}"
    if not experiment.has_reader:
        command = f"{command} | true"
    if experiment.stdin is None:
        return f"{command} </dev/null"
    return f"{_feed(experiment, secrets)} | {f'({command})' if experiment.cwd else command}"


def repeat_variables(plugin: PluginUnderTest, commands: Collection[str]) -> list[str]:
    """Return the variables of the shell that *commands* of ``repeat_command`` contain, each with what it stands for."""
    numbers = range(1, len(plugin.args) + 1)
    meanings = {
        **{_variable(name): "" for name, _ in plugin.env},
        **{f"ARG_{number}": f" (in its argument {number})" for number in numbers},
        EXEC_INFO: " (see 'keyferry kube exec-info --reveal -o raw')",
        _TOKEN: "",
    }
    return [
        name + meaning
        for name, meaning in meanings.items()
        if any(f'"${name}"' in command for command in commands)
    ]


def _variable(name: str) -> str:
    """Return the variable of the shell for a variable of the plugin, whose name may be none in a shell."""
    return re.sub(r"(?a)^(?=\d)|\W", "_", name)


def _argument_words(arguments: Sequence[str], secrets: Collection[str]) -> Iterator[str]:
    for number, (word, shown) in enumerate(zip(arguments, mask_arguments(arguments), strict=True), 1):
        flag = word.partition("=")[0]
        if shown == word and not any(secret in word for secret in secrets):
            yield shlex.quote(word)
        else:
            yield f'{flag}="$ARG_{number}"' if shown == f"{flag}={MASK}" else f'"$ARG_{number}"'


def _env_words(plugin: PluginUnderTest, experiment: Experiment, secrets: Collection[str]) -> list[str]:
    names = [name for name, _ in plugin.env if name not in experiment.unset]
    words = [f'{shlex.quote(name)}="${_variable(name)}"' for name in names]
    if plugin.kind == PluginKind.CLUSTER and experiment.shown:
        info = _text(experiment.shown.rstrip())
        is_secret = any(secret in info for secret in (MASK, *secrets))
        words.append(f'{EXEC_INFO}="${EXEC_INFO}"' if is_secret else shlex.quote(f"{EXEC_INFO}={info}"))
    words += [shlex.quote(f"{name}={value}") for name, value in experiment.env if name != EXEC_INFO]
    flags = [flag for name in experiment.unset for flag in ("-u", name)]
    if experiment.is_bare:
        path = os.environ.get("PATH", "")
        return ["env", "-i", shlex.quote(f"PATH={path}"), *words]
    return ["env", *flags, *words] if flags or words else []


def _feed(experiment: Experiment, secrets: Collection[str]) -> str:
    if experiment.feed:
        return experiment.feed
    if not experiment.shown:
        return "printf ''"
    shown = experiment.shown
    for secret in secrets:
        # Such as an annotation that the plugin returns as its password.
        shown = shown.replace(secret.encode("utf-8", "surrogateescape"), b"<secret>")
    is_plain = shown.endswith(b"\n") and _is_plain(shown[:-1])
    parts = (shown[:-1] if is_plain else shown).split(MASK.encode())
    token = f'"${_TOKEN}"'
    if is_plain:
        return f"printf '%s\\n' {token.join(shlex.quote(_text(part)) for part in parts)}"
    octal = "%s".join("".join(_octal(part)) for part in parts)
    return " ".join([f"printf '{octal}'", *[token] * (len(parts) - 1)])


def _is_plain(data: bytes) -> bool:
    """Return whether a terminal shows the bytes unchanged; a line break is not shown as one."""
    return data.isascii() and _text(data).isprintable()


def _octal(data: bytes) -> Iterable[str]:
    """Yield the bytes in the form that ``printf`` accepts in every shell."""
    for byte in data:
        char = chr(byte)
        is_plain = (char.isalnum() and byte < 128) or char in '{}:, ./_-"'
        yield char if is_plain else f"\\{byte:03o}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
