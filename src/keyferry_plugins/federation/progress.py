"""Report the steps of a run: words for a person, links for ``keyferry plugin try``; never a value."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry.sdk import ProvideError, tell
from keyferry.sdk.messages import are_links_wanted, report_link, shown


class Progress:
    """Reports nothing: the kubelet's log has an error's message and needs no more."""

    def note(self, *_words: object) -> None:
        """Tell a person; the words are not even made into a text if nobody reads them."""

    def step(self, _name: str) -> Progress:
        """Begin a step, whose failure is reported; to be used in a ``with`` block."""
        return self

    def done(self, _text: str, _facts: Mapping[str, object]) -> None:
        """Report that the current step succeeded."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Let errors pass."""


class VerboseProgress(Progress):
    """Reports to a person, on standard error."""

    def note(self, *words: object) -> None:
        """Write one line."""
        tell(f"keyferry-federate: {shown(' '.join(map(str, words)), 500)}")


class LinkProgress(Progress):
    """Reports each step to ``keyferry plugin try``, with the cure of the one that fails."""

    def __init__(self) -> None:
        self._name = ""

    def step(self, name: str) -> Progress:
        """Begin a step."""
        self._name = name
        return self

    def done(self, text: str, facts: Mapping[str, object]) -> None:
        """Write the line of a step that succeeded."""
        report_link(self._name, "ok", text, facts=facts)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Write the line of a step that failed."""
        if isinstance(error, ProvideError):
            report_link(self._name, "broken", error.message, cure=error.hint)


def make_progress(environ: Mapping[str, str], *, is_verbose: bool) -> Progress:
    """Return the way to report steps: links if the program that runs this plugin shows them."""
    if are_links_wanted(environ):
        return LinkProgress()
    return VerboseProgress() if is_verbose else Progress()
