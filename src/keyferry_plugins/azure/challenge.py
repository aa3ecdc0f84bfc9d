"""Find the Bearer challenge in a registry's WWW-Authenticate headers."""

from __future__ import annotations

from keyferry._net.challenge import ChallengeError, read_challenges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ChallengeError", "parse_bearer", "read_bearer", "read_bearer_compat"]


def read_bearer(headers: Sequence[str]) -> dict[str, str]:
    """Return the parameters of the only Bearer challenge in the headers; raise ChallengeError if there is not one."""
    found = [challenge for header in headers if (challenge := parse_bearer(header)) is not None]
    if len(found) != 1:
        how_many = "no" if not found else f"{len(found)}"
        raise ChallengeError(f"it has {how_many} Bearer challenges, expected one")
    return _complete(found[0])


def read_bearer_compat(headers: Sequence[str]) -> dict[str, str]:
    """Return the parameters of a Bearer challenge in the only header; raise ChallengeError if there is not one."""
    if len(headers) != 1:
        raise ChallengeError(f"it has {len(headers)} WWW-Authenticate headers, expected one")
    return read_bearer(headers)


def parse_bearer(header: str) -> dict[str, str] | None:
    """Return the parameters of a header's first challenge, by lower-case name; None if it is not a Bearer challenge.

    Raise ChallengeError if a name occurs twice, as neither value can be trusted, or a quote is not closed.
    """
    header = header.strip()
    # Checked first, so that a fault in a challenge of another scheme is not an error.
    if header.partition(" ")[0].lower() != "bearer":
        return None
    return next(read_challenges(header, is_strict=True))[1]


def _complete(parameters: dict[str, str]) -> dict[str, str]:
    for name in ("realm", "service"):
        if not parameters.get(name):
            raise ChallengeError(f"its Bearer challenge has no {name}")
    return parameters
