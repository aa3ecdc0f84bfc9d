"""The pages of codes: what lint reports, and what the kit checks, each with its cause and its cure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keyferry.kit.checks.catalogue import CHECKS, checks_for
from keyferry.kit.checks.check import Check
from keyferry.kit.plugin import PluginKind
from keyferry.lint.catalogue import CODES
from keyferry.lint.code import Code
from reference.tables import table

__all__ = ["kit_page", "lint_page"]

_LINT = """\
Codes never change their meaning. An error is something Kubernetes refuses: a kubelet does not
start with such a provider config, and kubectl does not go on with such a kubeconfig or kuberc.
keyferry-federate refuses a FederationConfig that has one.
A warning is legal and surely not what was meant; an info is worth knowing.
"""
_KIT = """\
Codes never change their meaning. An error is something that Kubernetes refuses, or that will fail or leak; a
warning is certainly not intended; an info is worth knowing. [The kit](kit.md) says how to run the checks.
"""


def lint_page() -> str:
    """Return the page with every code that lint can report."""
    index = _index("what", CODES.values())
    return "\n".join(["# What `keyferry lint` reports\n", _LINT, index, *map(_lint_entry, CODES.values())])


def _lint_entry(code: Code) -> str:
    versions = f"*Kubernetes:* {code.kubernetes}\n\n" if code.kubernetes else ""
    return f"## {code.code}\n\n**{code.title}** ({code.severity})\n\n{code.why}\n\n{versions}*What to do:* {code.fix}\n"


def kit_page() -> str:
    """Return the page with every check of the kit."""
    index = _index("a good plugin", CHECKS.values(), "plugins", _kinds)
    return "\n".join(
        ["# What `keyferry plugin test` checks\n", _KIT, index, *map(_kit_entry, CHECKS.values())]
    )


def _kit_entry(check: Check) -> str:
    title = f"**A good plugin {check.title}** ({check.severity}; {_kinds(check)})"
    return f"## {check.code}\n\n{title}\n\n*Why:* {check.why}\n\n*What to do:* {check.fix}\n"


def _kinds(check: Code | Check) -> str:
    """Return the kinds of plugins that a check applies to."""
    return ", ".join(str(kind) for kind in PluginKind if check in checks_for(kind))


def _index(
    what: str,
    codes: Iterable[Code | Check],
    more: str = "",
    tell: Callable[[Code | Check], str] | None = None,
) -> str:
    """Return the index, with one more column if there is something to *tell*."""
    heads = ["code", "severity", *([more] if tell else []), what]
    rows = [
        [f"[{each.code}](#{each.code.lower()})", each.severity, *([tell(each)] if tell else []), each.title]
        for each in codes
    ]
    return table(heads, rows)
