"""The flags of keyferry-federate."""

from __future__ import annotations

from keyferry.sdk import IMAGE, REGISTRY, ProvideError
from keyferry.sdk.federation import RULE_FLAGS, read_setting
from keyferry.sdk.flags import LOG_FLAGS, Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.flags import Flags

__all__ = ["FLAGS", "read_text", "read_timeout", "refuse_both"]

_USUAL_TIMEOUT, _USUAL_SECONDS = "45s", 45.0
FLAGS = (
    Flag("config", "a FederationConfig as JSON; the flags from --registry to --ca-file take its place"),
    Flag("registry", "a registry that the login is for, as in image names", is_repeated=True),
    Flag("preset", "the preset to use; --show-preset prints one"),
    Flag("param", "NAME=VALUE, a parameter of the preset", is_repeated=True),
    Flag("param-annotation", "NAME=KEY=PATTERN, a parameter from an annotation", is_repeated=True),
    Flag("param-file", "NAME=PATH, a parameter whose value is in a file", is_repeated=True),
    Flag("param-env", "NAME=VARIABLE, a parameter whose value is in a variable", is_repeated=True),
    Flag("audience", "the audience that the token must have"),
    Flag("issuer", "the issuer that the token must have"),
    Flag("subject-from", "where the token is: kubelet, file, env or github"),
    Flag("subject-file", "the file that the token is in"),
    Flag("subject-variable", "the variable that the token is in"),
    Flag("cache-key-type", "the images that a login applies to", choices=(REGISTRY, IMAGE)),
    Flag("ca-file", "a bundle of authorities to trust in place of the system's"),
    Flag("timeout", "the time for all calls together, at most 50s", default=_USUAL_TIMEOUT),
    Flag("verbose", "tell each step on standard error, without secrets", is_switch=True),
    Flag("show-preset", "print a preset, which can be the start of a recipe, and exit"),
    *LOG_FLAGS,
)
_NANOSECONDS = 1_000_000_000
# The kubelet kills a plugin after 60 seconds and discards its error message.
_MOST_SECONDS = 50.0


def read_text(flags: Flags, environ: Mapping[str, str], name: str) -> str:
    """Return the value of a flag, or else of its variable."""
    return read_setting(flags.values, environ, name)


def read_timeout(flags: Flags) -> float:
    """Return the seconds for all calls together."""
    text = flags.text("timeout")
    if text == _USUAL_TIMEOUT:
        return _USUAL_SECONDS
    from keyferry.api.meta import parse_duration
    from keyferry.errors import DurationError  # here: few set it

    try:
        seconds = parse_duration(text) / _NANOSECONDS
    except DurationError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise ProvideError(f"--timeout: found {text[:40]!r}, expected a duration up to {_MOST_SECONDS:g}s")
    return seconds


def refuse_both(flags: Flags) -> None:
    """Raise ProvideError if there are a config and flags that would take its place."""
    given = [f"--{name}" for name in RULE_FLAGS if name in flags.given]
    if given:
        raise ProvideError(
            f"--config cannot be used with {', '.join(given)}", "write these settings into the config"
        )
