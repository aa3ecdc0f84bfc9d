"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import ParamSpec

from support.plugins import PATIENCE_SECONDS

Arguments = ParamSpec("Arguments")


def in_loop(test: Callable[Arguments, Coroutine[object, object, None]]) -> Callable[Arguments, None]:
    """Run a test in an event loop of its own, for as long as a test may wait for something."""

    @wraps(test)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE_SECONDS))

    return run
