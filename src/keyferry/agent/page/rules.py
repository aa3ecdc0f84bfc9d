"""The access rules as the page shows them, and what to add so that a request that was refused is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry.agent.access import Caller, names
from keyferry.agent.journal import RequestDecision
from keyferry.agent.settings import DEFAULT_CONFIG, AgentSettings, describe_users
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.images.reference import registry_of
from keyferry.lint.kinds.agent_config import OVERFLOW_ID
from keyferry.page.model import AccessRow, Advice, RefusalRule

_EVERY = "every registry"
_NOBODY = (
    f"User {OVERFLOW_ID} stands for every user who has no number on this node: a rule for it is for all of them. "
    "Give the program a user of its own, and add a rule for that one."
)


def make_rows(settings: AgentSettings) -> tuple[AccessRow, ...]:
    """Return who may ask for what, and who manages: what is always so, then each rule by its place in the config."""
    config = settings.config
    return (
        AccessRow(name="always", who="root and the agent's user", registries=(_EVERY,), may_manage=True),
        *(
            AccessRow(
                name=f"access[{at}]",
                who=describe_users(rule),
                registries=(_EVERY,) if rule.every_registry else tuple(map(printable, rule.registries)),
            )
            for at, rule in enumerate(config.access or ())
        ),
        *(
            AccessRow(name=f"manage[{at}]", who=describe_users(rule), registries=(), may_manage=True)
            for at, rule in enumerate(config.manage or ())
        ),
    )


def explain_refusal(settings: AgentSettings, caller: Caller, decision: RequestDecision) -> RefusalRule | None:
    """Return the rules that name the caller and are not enough, and what to add; None if no rule is missing."""
    wanted = decision.result.missing_rule
    if not wanted:
        return None
    rules: tuple[AccessRule | ManageRule, ...] = settings.config.access or ()
    found = tuple(
        f"access[{at}]" for at, rule in enumerate(rules) if wanted == "access" and names(rule, caller)
    )
    return RefusalRule(rules=found, advice=_advise(settings, caller, wanted, decision.image))


def _advise(settings: AgentSettings, caller: Caller, wanted: str, image: str) -> Advice:
    if caller.uid == OVERFLOW_ID:
        return Advice(text=_NOBODY)
    file = settings.config_file or DEFAULT_CONFIG
    text = f"If user {caller.uid} is to be allowed, add this below '{wanted}:' in {printable(file)}:"
    return Advice(text=text, lines=tuple(_lines(caller.uid, wanted, image)))


def _lines(uid: int, wanted: str, image: str) -> Iterator[str]:
    # JSON is YAML, whatever is in the name.
    registries = json.dumps([registry_of(image)] if image else ["REGISTRY"])
    yield (
        f"- {{uids: [{uid}], registries: {printable(registries)}}}"
        if wanted == "access"
        else f"- {{uids: [{uid}]}}"
    )
