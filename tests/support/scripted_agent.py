"""The providers of a node agent whose plugins are scripted, on a stepped clock."""

from __future__ import annotations

from typing import Any

from keyferry.agent.providers import AgentProviders
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.images.provider.provider import Provider
from support.scripted import Clock, Scripted, configured, response

IMAGE = "reg.io/app"


class ScriptedAgent:
    """One provider, whose plugin has this answer; *config* is that of the provider, *settings* are its own."""

    def __init__(
        self,
        answer: Any = None,
        *,
        clock: Clock | None = None,
        settings: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.plugin = Scripted(response() if answer is None else answer)
        runner = answer if isinstance(answer, ExecPlugin) else self.plugin
        self.provider = Provider(configured(**config), runner, clock=self.clock, **(settings or {}))
        self.providers = self.beside()

    def beside(self, *others: ScriptedAgent) -> AgentProviders:
        """Return the providers of an agent that has those of the others, too."""
        return AgentProviders([each.provider for each in (self, *others)], clock=self.clock)

    def look_up(self, image: str = IMAGE, *, answer: Any = None, times: int = 1, step: float = 0) -> None:
        """Look an image up, for which the plugin now has this answer."""
        self.plugin.answer = answer or self.plugin.answer
        for _ in range(times):
            self.providers.lookup(image)
            self.clock.step(step)

    def renew(self, image: str = IMAGE, *, answer: Any = None) -> None:
        """Renew an answer."""
        self.plugin.answer = answer or self.plugin.answer
        self.provider.refresh(image)
