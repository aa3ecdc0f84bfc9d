"""The providers of the agent, which answers for others: what is in memory, one provider alone, renewals, refusals."""

from __future__ import annotations

import asyncio

from keyferry.images.answer import Answer, LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Pod
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import ImageName, parse_image


class AgentProviders(Providers):
    """The providers of a node, with what only a process needs that answers for other processes."""

    def __contains__(self, provider: str) -> bool:
        return provider in self._by_name

    def find(self, provider: str, image: str | ImageName) -> Provider | None:
        """Return the provider of this name, or None if no pattern of it matches *image*.

        Raise KeyError if there is no provider of this name.
        """
        named, matching = self._by_name[provider], self._index.match(parse_image(image).repository)
        return named if any(self._providers[owner] is named for owner, _ in matching) else None

    def recall(self, image: str | ImageName, *, pod: Pod | None = None) -> Answer | None:
        """Return what ``lookup`` returns if all of it is in memory, else None; nothing is read, run or waited for."""
        return self._recall(self._question(image, pod, ()))

    def foresee(self, image: str | ImageName) -> Answer:
        """Return what ``lookup`` returns as far as it is in memory; a plugin that would run has an unknown answer.

        Nothing is read, run, waited for or counted.
        """
        question = self._question(image, None, ())
        matching = [self._providers[owner] for owner, _ in question.matching]
        provisions = tuple(each.recall(question.name.repository) or _unrun(each.name) for each in matching)
        return self._finish(question, provisions, [], self._node_kept() or [])

    async def provide_async(
        self, provider: str, image: str | ImageName, *, pod: Pod | None = None
    ) -> Provision | None:
        """Return the answer of one provider for *image*, or None if no pattern of this provider matches it.

        Raise KeyError if there is no provider of this name.
        """
        asked, repository = self.find(provider, image), parse_image(image).repository
        if asked is None:
            return None
        recalled = asked.recall(repository, pod)
        if recalled is not None:
            if recalled.outcome is ProvisionOutcome.CACHED:
                asked.counters.hit()
            return recalled
        return await asyncio.wrap_future(self._submit(asked.provide, repository, pod))

    async def refresh_async(self, provider: str, image: str) -> Provision:
        """Run the plugin of one provider for a repository whose answer is cached; lookups then get the new answer.

        A failure leaves the cached answer as it is. Raise KeyError if there is no provider of this name.
        """
        return await asyncio.wrap_future(self._submit(self._by_name[provider].refresh, image))

    def refuse(self, image: str | ImageName, username: str, password: str) -> bool:
        """Remove a credential that a registry refused from the cache of every provider; see ``evict``."""
        name = parse_image(image).repository
        evicted = [provider.evict(name, username, password) for provider in self._providers]
        return any(evicted)


def _unrun(provider: str) -> Provision:
    missing = (MissingInput(input=LookupInput.PLUGIN, name=provider),)
    return Provision(provider=provider, outcome=ProvisionOutcome.UNKNOWN, missing=missing)
