"""The library's debug logs on standard error, for ``-v``."""

from __future__ import annotations

import logging
from time import monotonic

from keyferry.show.writer import report

__all__ = ["show_debug_logs"]


class _Reporter(logging.Handler):
    """Writes each line with the milliseconds since the first use, and with the stage that it is about."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; what could harm a terminal is replaced."""
        milliseconds = (monotonic() - self._begun) * 1000
        stage = record.name.removeprefix("keyferry.")
        report(f"{milliseconds:.1f} ms: {stage}: {record.getMessage()}")


def show_debug_logs() -> None:
    """Write debug logs from now on; once is enough."""
    logger = logging.getLogger("keyferry")
    if not any(isinstance(each, _Reporter) for each in logger.handlers):
        logger.addHandler(_Reporter())
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
