"""Debug logs by ``logging``, for programs that have imported it; nobody else pays for the import.

Loggers are named by stage: ``keyferry.images``, ``keyferry.agent``, ``keyferry.registry``, ``keyferry.clusters``. No
line has a secret: names, paths, addresses, times and results only.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Logger


_DEBUG = 10
_loggers: dict[str, Logger] = {}


def log_debug(stage: str, message: str, *values: object) -> None:
    """Log *message*, formatted with *values* by ``%``, at the level DEBUG of the stage's logger."""
    logger = _loggers.get(stage)
    if logger is None:
        # Without the module there is no handler that could receive anything.
        if "logging" not in sys.modules:
            return
        from logging import getLogger

        logger = _loggers[stage] = getLogger(f"keyferry.{stage}")
    if logger.isEnabledFor(_DEBUG):
        logger.debug(message, *values)
