"""The challenges in a registry's ``WWW-Authenticate`` headers, and which of them to answer. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keyferry._core.values import Value, field
from keyferry._net.challenge import read_challenges

__all__ = ["Challenge", "choose_challenge", "parse_challenges"]

_MOST_CHALLENGES = 16
_MOST_CHARACTERS = 1 << 14
# Bearer first: with a token, the password is sent to the token server only.
_PREFERENCE = ("bearer", "basic")


class Challenge(Value):
    """An authentication scheme with its parameters; the scheme and the parameters' names are in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """Return the value of a parameter, or an empty string."""
        return self.parameters.get(name, "")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Return all challenges of one or more headers, in order; the rest of a header after a syntax error is ignored."""
    found: list[Challenge] = []
    for value in values:
        found += [
            Challenge(scheme=scheme, parameters=parameters)
            for scheme, parameters in read_challenges(value[:_MOST_CHARACTERS])
        ]
    return tuple(found[:_MOST_CHALLENGES])


def choose_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the first Bearer challenge with a realm, else the first Basic challenge, else None."""
    usable = [one for one in challenges if one.scheme != "bearer" or one.parameter("realm")]
    for scheme in _PREFERENCE:
        for challenge in usable:
            if challenge.scheme == scheme:
                return challenge
    return None
