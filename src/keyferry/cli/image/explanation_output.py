"""Parts of the output of ``explain`` that an image and the containers of a pod share."""

from keyferry._core.secrets import printable
from keyferry.cli.frame.commands import Exit
from keyferry.cli.frame.image_lookup import Inputs, code_for
from keyferry.cli.frame.registry_arguments import code_for_check
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import PullVerdict
from keyferry.explain.verdict import find_verdict
from keyferry.show.text import fold
from keyferry.show.writer import style

_CODES = {PullVerdict.YES: Exit.OK, PullVerdict.NO: Exit.NO, PullVerdict.UNKNOWN: Exit.UNKNOWN}

__all__ = ["banner_blocks", "explanation_code"]


def banner_blocks(inputs: Inputs) -> tuple[str, ...]:
    """Return the problems of a config with which a kubelet does not start, as one block of text; none without any."""
    if not inputs.banner:
        return ()
    lines = (line for each in inputs.banner for line in fold(printable(each), "", "  "))
    return ("\n".join(style(line, "bold", "red") for line in lines),)


def explanation_code(explanation: Explanation) -> Exit:
    """Return the exit code of ``get`` or, after a check with the registry, that of ``can-pull``."""
    answer, check = explanation.answer, explanation.check
    if explanation.unreadable is not None or explanation.is_never_pulled:
        return _CODES[find_verdict(explanation).outcome]
    return code_for(answer) if check is None else code_for_check(answer, check)
