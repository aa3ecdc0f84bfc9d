"""The node agent in a thread of the test's own process: for what neither a signal nor the end of a process shows."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from keyferry import EnvironmentProblem
from keyferry.agent.log import AgentLog
from keyferry.agent.process import AgentProcess
from keyferry.agent.settings import NAMES, Given, flag_of
from support.agents import Agent
from support.plugins import PATIENCE_SECONDS, Node, provider_entry, wait_until, write_config

_SETTINGS = {f"--{flag_of(name)}": name for name in NAMES}


class _Loop(asyncio.SelectorEventLoop):
    """Keeps what is to be done at a signal, since only a main thread gets one."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[int, Callable[..., object]] = {}

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: object) -> None:
        """Keep what is to be done."""
        assert not args
        self.handlers[sig] = callback


class AgentHere(Agent):
    """An agent with these flags of ``keyferry agent run``; raises what the command would report."""

    def __init__(self, node: Node, *flags: str) -> None:
        super().__init__(node)
        given = dict(zip(flags[::2], flags[1::2], strict=True))
        config_file = given.pop("--agent-config", None)
        places = {"socket": self.socket, "providerConfig": str(node.config), "binDir": str(node.bin_dir)}
        settings = places | {_SETTINGS[flag]: text for flag, text in given.items()}
        environ = os.environ | {"KEYFERRY_PROC": str(node.root)}
        self._written = io.StringIO()
        process = AgentProcess(
            Given(flags=settings, config_file=config_file, environ=environ), AgentLog(stream=self._written)
        )
        self._loop = _Loop()
        self._problem: EnvironmentProblem | None = None

        def serve() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                    runner.run(process.run())
            except EnvironmentProblem as problem:
                self._problem = problem

        self._thread = threading.Thread(target=serve)
        self._thread.start()

    @property
    def log(self) -> str:
        """What the agent has logged so far."""
        return self._written.getvalue()

    def wait_ready(self) -> AgentHere:
        """Wait until it serves; raise what keeps it from that."""
        wait_until(lambda: self.is_ready or not self._thread.is_alive(), "the agent")
        if self._problem is not None:
            raise self._problem
        assert self.is_ready, self.log
        return self

    def begin_to_stop(self) -> None:
        """Tell it to stop, as systemd does."""
        self._loop.call_soon_threadsafe(self._loop.handlers[signal.SIGTERM])

    def stop(self) -> None:
        """Stop it, and wait for its end."""
        if self._thread.is_alive():
            self.begin_to_stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


@contextmanager
def agent_here(node: Node, *flags: str) -> Iterator[AgentHere]:
    """Run an agent for the duration of a block; the node's config is written unless it is there.

    Plugins get the environment of this process, in which pytest names the phase of a test. So an agent that a fixture
    has started sees another environment when it loads its config anew, and every provider loses its cache.
    """
    if not node.config.exists():
        write_config(node.config, node.entries or [provider_entry()])
    with _as_before():
        agent = AgentHere(node, *flags)
        try:
            yield agent.wait_ready()
        finally:
            agent.stop()


@contextmanager
def _as_before() -> Iterator[None]:
    """Take back what an agent changes in its process."""
    logger, limits = logging.getLogger("asyncio"), resource.getrlimit(resource.RLIMIT_NOFILE)
    handlers, propagate, interval = logger.handlers, logger.propagate, sys.getswitchinterval()
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sys.setswitchinterval(interval)
