"""Tell ``keyferry plugin try`` of each step of a plugin, so that it can show which one is broken."""

from __future__ import annotations

import os

from keyferry.api.link_line import VARIABLE, LinkLine, encode_link
from keyferry.sdk.prompt import tell
from keyferry.sdk.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VARIABLE", "are_links_wanted", "report_link"]

_MOST_TEXT, _MOST_FACT = 480, 280


def are_links_wanted(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the program that runs this plugin shows its links."""
    return (os.environ if environ is None else environ).get(VARIABLE) == "1"


def report_link(
    name: str,
    state: str,
    text: str,
    *,
    facts: Mapping[str, object] | None = None,
    cure: str = "",
    known: tuple[str, ...] = (),
) -> None:
    """Write the line of one step on standard error: *state* is ok, broken or unknown.

    Secrets in *known*, and everything that looks like one, are masked.
    """
    shown_facts = {key: _shown_fact(value, known) for key, value in (facts or {}).items()}
    link = LinkLine(name, state, shown(text, _MOST_TEXT, known), shown_facts, shown(cure, _MOST_TEXT, known))
    tell(encode_link(link))


def _shown_fact(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, list | tuple):
        return [shown(each, _MOST_FACT, known) for each in value]
    return value if isinstance(value, int | float) else shown(value, _MOST_FACT, known)
