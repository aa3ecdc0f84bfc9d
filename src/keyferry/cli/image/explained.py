"""The explanation of one image, for commands that print one or several."""

from keyferry._core.values import Value
from keyferry.cli.frame.commands import Exit
from keyferry.show.writer import Lines

__all__ = ["ExplainedImage"]


class ExplainedImage(Value):
    """The explanation of one image, as text or as a document, whichever the format requires, and the exit code."""

    text: Lines
    document: dict[str, object]
    code: Exit
