"""What axe finds on a page that is serious, for those who cannot see, point or hear."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from playwright.sync_api import Page

from support.parts import need_part

__all__ = ["check_access"]

# Rows that are like the first ones need not be looked at again, which takes minutes.
_ALIKE = [
    "tbody tr:nth-of-type(n + 6)",
    "tbody:nth-of-type(n + 4)",
    ".card:nth-of-type(n + 6)",
    ".rows > li:nth-child(n + 6)",
]
_CHECK = """async ([exclude, rules]) => {
  const options = {resultTypes: ['violations'], ...(rules.length ? {runOnly: rules} : {})};
  const {violations} = await axe.run({include: [['html']], exclude: exclude.map((each) => [each])}, options);
  return violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html.slice(0, 160)}`));
}"""


@cache
def _axe() -> str:
    return Path(need_part("deploy/node_modules/axe-core/axe.min.js")).read_text("utf-8")


def check_access(page: Page, *rules: str) -> list[str]:
    """What axe finds that is serious, by rule and element; *rules* are those to look for, all by default."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())
    found: list[str] = page.evaluate(_CHECK, [_ALIKE, rules])
    return found
