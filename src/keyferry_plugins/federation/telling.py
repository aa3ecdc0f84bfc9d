"""Tell what the plugin does: words for a person, links for ``keyferry plugin try``; never a value."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Teller", "make_teller"]

# That of keyferry.sdk.links, which is imported only if it is set.
_VARIABLE = "KEYFERRY_LINKS"


class Teller:
    """Tells nothing: the kubelet's log has an error's message and needs no more."""

    def note(self, *_words: object) -> None:
        """Tell a person; the words are not even made into a text if nobody reads them."""

    def step(self, _name: str) -> Teller:
        """Begin a step, whose failure is told; to be used in a ``with`` block."""
        return self

    def done(self, _text: str, _facts: Mapping[str, object]) -> None:
        """Tell that the current step succeeded."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Let errors pass."""


class VerboseTeller(Teller):
    """Tells a person, on standard error."""

    def note(self, *words: object) -> None:
        """Write one line."""
        from keyferry.sdk import tell
        from keyferry.sdk.messages import shown

        tell(f"keyferry-federate: {shown(' '.join(map(str, words)), 500)}")


class LinkTeller(Teller):
    """Tells ``keyferry plugin try`` of each step, with the cure of the one that fails."""

    def __init__(self) -> None:
        self._name = ""

    def step(self, name: str) -> Teller:
        """Begin a step."""
        self._name = name
        return self

    def done(self, text: str, facts: Mapping[str, object]) -> None:
        """Write the line of a step that succeeded."""
        from keyferry.sdk.messages import report_link

        report_link(self._name, "ok", text, facts=facts)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Write the line of a step that failed."""
        from keyferry.sdk.messages import report_link

        if isinstance(error, ProvideError):
            report_link(self._name, "broken", error.message, cure=error.hint)


def make_teller(environ: Mapping[str, str], *, is_verbose: bool) -> Teller:
    """Return who tells what: links if the program that runs this plugin shows them."""
    if environ.get(_VARIABLE) == "1":
        return LinkTeller()
    return VerboseTeller() if is_verbose else Teller()
