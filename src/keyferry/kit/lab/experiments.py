"""One question to a plugin, and the circumstances it is asked in: what is given, and how a shell would give it."""

import os
import shlex
from collections.abc import Iterable, Mapping

from keyferry._core.secrets import MASK
from keyferry._core.values import Value, field
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.why.masking import mask_arguments
from keyferry.kit.lab.plugin_under_test import PluginUnderTest
from keyferry.kit.plugin_kind import PluginKind

__all__ = ["Experiment", "Surroundings", "environment", "repeat_command"]

# A variable is shown as it is where the kit has set it, and the plugin's own ones never.
_PLACES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_KEPT = ("PATH",)


class Experiment(Value):
    """One run. *shown* is its input, or exec info, without secrets; *feed* is a shell's way to make a long one.

    *env* is set and *unset* is taken away last. A *bare* run has PATH and the plugin's own variables only.
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


class Surroundings(Value):
    """What all runs share: a home and a folder for temporary files that are new, and our own environment."""

    home: str
    temporary: str
    environ: Mapping[str, str] = field(repr=False)


def environment(plugin: PluginUnderTest, around: Surroundings, experiment: Experiment) -> dict[str, str]:
    """All variables of a run."""
    environ = {name: around.environ[name] for name in _KEPT if name in around.environ}
    if not experiment.is_bare:
        environ = {name: value for name, value in around.environ.items() if name not in _PLACES}
        environ |= {"HOME": around.home, "TMPDIR": around.temporary}
    environ |= {name: value for name, value in plugin.env if name}
    environ |= dict(experiment.env)
    for name in experiment.unset:
        environ.pop(name, None)
    return environ


def repeat_command(plugin: PluginUnderTest, experiment: Experiment) -> str:
    """The shell command that repeats an experiment; secrets in it are masked."""
    words = [
        *_env_words(plugin, experiment),
        *experiment.prefix,
        plugin.path,
        *mask_arguments(plugin.args),
    ]
    command = shlex.join(words)
    if experiment.cwd:
        command = f"cd {shlex.quote(experiment.cwd)} && {command}"
    if not experiment.has_reader:
        command = f"{command} | true"
    if experiment.stdin is None:
        return f"{command} </dev/null"
    return f"{_feed(experiment)} | {f'({command})' if experiment.cwd else command}"


def _env_words(plugin: PluginUnderTest, experiment: Experiment) -> list[str]:
    words = [f"{name}={MASK}" for name, _ in plugin.env]
    if plugin.kind == PluginKind.CLUSTER and experiment.shown:
        words.append(f"{EXEC_INFO}={_text(experiment.shown.rstrip())}")
    words += [f"{name}={value}" for name, value in experiment.env if name != EXEC_INFO]
    flags = [flag for name in experiment.unset for flag in ("-u", name)]
    if experiment.is_bare:
        path = os.environ.get("PATH", "")
        return ["env", "-i", f"PATH={path}", *words]
    return ["env", *flags, *words] if flags or words else []


def _feed(experiment: Experiment) -> str:
    if experiment.feed:
        return experiment.feed
    if not experiment.shown:
        return "printf ''"
    if experiment.shown.endswith(b"\n") and _is_plain(experiment.shown[:-1]):
        return f"printf '%s\\n' {shlex.quote(_text(experiment.shown[:-1]))}"
    octal = "".join(_octal(experiment.shown))
    return f"printf '{octal}'"


def _is_plain(data: bytes) -> bool:
    """Tell whether a terminal shows bytes as they are: a line break in them would not be shown as one."""
    return data.isascii() and _text(data).isprintable()


def _octal(data: bytes) -> Iterable[str]:
    """Bytes as ``printf`` takes them in every shell."""
    for byte in data:
        char = chr(byte)
        is_plain = (char.isalnum() and byte < 128) or char in '{}:, ./_-"'
        yield char if is_plain else f"\\{byte:03o}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
