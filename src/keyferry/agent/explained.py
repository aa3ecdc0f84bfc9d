"""Explanations for the socket's clients: as the command line prints them, without what the caller may not know."""

from __future__ import annotations

from keyferry._core.values import replace
from keyferry.agent.decision import result_of_answer
from keyferry.agent.lookups import AgentQuestion, only_for
from keyferry.agent.message import AgentReply, reply_document, with_decision
from keyferry.agent.state import AgentState
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.explain.causes import explain
from keyferry.explain.document import explanation_document
from keyferry.explain.explanation import Facts
from keyferry.images.answer import Answer, Provision
from keyferry.images.keyring import join_keyrings, lookup_all

__all__ = ["explain_reply", "withhold"]

# In the place of patterns and keys. It has no dot and no port, so it is the host of no image.
_WITHHELD = "withheld"
_NO_LOGIN = AuthConfig(username="", password="")


def explain_reply(
    state: AgentState, question: AgentQuestion, answer: Answer, *, is_limited: bool
) -> AgentReply:
    """Return the explanation of an answer; if *is_limited*, the caller may not ask for other registries."""
    settings = state.settings
    config: dict[str, object] = {
        "path": settings.text("providerConfig"),
        "from": settings.origins["providerConfig"],
        "binDir": settings.text("binDir"),
        "binDirFrom": settings.origins["binDir"],
    }
    shown = withhold(answer) if is_limited else answer
    document = explanation_document(explain(Facts(answer=shown, config=config)))
    kind = document.pop("kind")
    document.pop("apiVersion")
    return with_decision(reply_document(str(kind), **document), (question, result_of_answer(answer)))


def withhold(answer: Answer) -> Answer:
    """Return an answer without the patterns and keys of other registries; ``withheld`` stands in their place.

    So the reasons still tell that there are some, and that they do not match the image.
    """
    covering = dict(answer.matching)
    provisions = tuple(_without_keys(provision, answer.name) for provision in answer.provisions)
    given = [provision.keyring for provision in provisions if provision.auth]
    keyrings = (join_keyrings(given),) if given else ()
    return replace(
        answer,
        credentials=tuple(lookup_all(keyrings, answer.name)),
        provisions=provisions,
        providers=tuple(
            config if index in covering else _without_patterns(config)
            for index, config in enumerate(answer.providers)
        ),
        keyrings=keyrings,
    )


def _without_keys(provision: Provision, name: str) -> Provision:
    auth = only_for(provision, name)
    if len(auth) == len(provision.auth):
        return provision
    return replace(provision, auth={**auth, _WITHHELD: _NO_LOGIN})


def _without_patterns(config: CredentialProvider) -> CredentialProvider:
    return replace(config, match_images=(_WITHHELD,))
