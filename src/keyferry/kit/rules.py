"""Which rule makes which check."""

from keyferry.kit.evidence import Rule
from keyferry.kit.rules_answer import ANSWER_RULES
from keyferry.kit.rules_cluster import CLUSTER_RULES
from keyferry.kit.rules_content import CONTENT_RULES
from keyferry.kit.rules_input import INPUT_RULES
from keyferry.kit.rules_process import PROCESS_RULES
from keyferry.kit.rules_scope import SCOPE_RULES
from keyferry.kit.rules_secrets import SECRET_RULES

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
