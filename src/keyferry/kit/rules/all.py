"""The rule of each check, by code."""

from __future__ import annotations

from keyferry.kit.lab.evidence import Rule
from keyferry.kit.rules.answer import ANSWER_RULES
from keyferry.kit.rules.cluster import CLUSTER_RULES
from keyferry.kit.rules.content import CONTENT_RULES
from keyferry.kit.rules.input import INPUT_RULES
from keyferry.kit.rules.process import PROCESS_RULES
from keyferry.kit.rules.scope import SCOPE_RULES
from keyferry.kit.rules.secrets import SECRET_RULES

__all__ = ["RULES"]

RULES: dict[str, Rule] = {
    **ANSWER_RULES,
    **CONTENT_RULES,
    **SCOPE_RULES,
    **INPUT_RULES,
    **CLUSTER_RULES,
    **SECRET_RULES,
    **PROCESS_RULES,
}
