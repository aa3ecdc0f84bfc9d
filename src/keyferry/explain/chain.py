"""A chain of links from a service account to an image: the state of each, the verdict, and its text and document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value, field
from keyferry.api.link_line import LinkLine, decode_link
from keyferry.errors import KeyferryError, Kind
from keyferry.show.documents import as_yaml, make_document
from keyferry.show.text import Mark, fold, mark, wrap
from keyferry.show.writer import style

Json = dict[str, object]


class LinkName(StrEnum):
    """The links of a chain, in order."""

    PROVIDER = "provider"
    ACCOUNT = "account"
    TOKEN = "token"  # noqa: S105 - the name of a link
    NODE = "node"
    CLAIMS = "claims"
    PLUGIN = "plugin"
    KEYS = "keys"
    REGISTRY = "registry"


class LinkState(StrEnum):
    """The state of a link."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_REACHED = "notReached"


class Link(Value):
    """One link: what was found as a sentence and as facts, and the cure if it is not in order.

    *manifests* are Kubernetes objects that cure it. *kind* is the kind of the problem, and *error* the problem itself
    if it is an exception. A link that *is_report* is a step of the plugin by its own report, named ``plugin/NAME``.
    """

    name: str
    state: LinkState
    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    cure: str = ""
    manifests: tuple[Json, ...] = ()
    kind: Kind | None = None
    error: KeyferryError | None = None
    is_report: bool = False


class Chain(Value):
    """The links from *account* to *image*; *notes* are about the node's files."""

    image: str
    account: str
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()

    @property
    def culprit(self) -> Link | None:
        """The first broken link, else the first whose state is unknown; None if all are in order.

        A plugin's report of its own steps counts only if the plugin fails.
        """
        has_failed = any(
            link.name == LinkName.PLUGIN and link.state is LinkState.BROKEN for link in self.links
        )
        counted = [link for link in self.links if has_failed or not link.is_report]
        for state in (LinkState.BROKEN, LinkState.UNKNOWN):
            for link in counted:
                if link.state is state:
                    return link
        return None

    @property
    def state(self) -> LinkState:
        """The state of the whole chain: that of the culprit, else OK."""
        return LinkState.OK if self.culprit is None else self.culprit.state

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        link = self.culprit
        if link is None:
            return f"yes: {self.account} can pull {self.image}"
        if link.state is LinkState.UNKNOWN:
            return f"cannot tell whether {self.account} can pull {self.image}: {link.text}"
        return f"no: {self.account} cannot pull {self.image}: {link.text}"


def chain_document(chain: Chain) -> Json:
    """Return the chain as a document."""
    culprit = chain.culprit
    return make_document(
        "PluginTrial",
        image=chain.image,
        serviceAccount=chain.account,
        outcome=str(chain.state),
        verdict=chain.verdict,
        firstProblem=None if culprit is None else str(culprit.name),
        links=[_link_document(link) for link in chain.links],
    )


def _link_document(link: Link) -> Json:
    return {
        "name": str(link.name),
        "state": str(link.state),
        "text": link.text,
        "facts": dict(link.facts),
        "cure": link.cure,
        "manifests": list(link.manifests),
    }


_MARKS = {
    LinkState.OK: Mark.YES,
    LinkState.BROKEN: Mark.NO,
    LinkState.UNKNOWN: Mark.UNKNOWN,
    LinkState.NOT_REACHED: Mark.SKIPPED,
}

_STYLES = {
    LinkState.OK: "green",
    LinkState.BROKEN: "red",
    LinkState.UNKNOWN: "yellow",
    LinkState.NOT_REACHED: "dim",
}


def chain_lines(chain: Chain) -> Iterator[str]:
    """Yield the verdict, the cure of the first problem, and a paragraph for each link."""
    for line in fold(printable(chain.verdict), rest="  "):
        yield style(line, "bold", _STYLES[chain.state])
    if chain.culprit is not None:
        yield from _cure_lines(chain.culprit)
    yield ""
    for link in chain.links:
        first, *others = wrap(_title(link), link.text)
        yield mark(_MARKS[link.state]) + first[1:]
        yield from others
        for name, value in link.facts.items():
            yield from wrap("", f"{name}: {_shown(value)}")


def _title(link: Link) -> str:
    """Return the name of a link; that of a plugin's own step has a mark, so that it is not taken for another."""
    return f"> {link.name.partition('/')[2]} " if link.is_report else str(link.name)


def _cure_lines(link: Link) -> Iterator[str]:
    if link.cure:
        yield ""
        yield from wrap("cure", link.cure)
    for at, manifest in enumerate(link.manifests):
        yield "---" if at else ""
        yield from as_yaml(manifest).removesuffix("\n").split("\n")


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_MOST_LINKS = 16


class LinkReports:
    """Collects the lines of one run; nothing in them is trusted, and known secrets in them are masked."""

    def __init__(self) -> None:
        self._lines: list[LinkLine] = []

    def take(self, stderr: bytes) -> bytes:
        """Keep the links in *stderr*, and return the other lines; a line that is not valid stays there."""
        rest = []
        for line in stderr.splitlines(keepends=True):
            found = decode_link(line.rstrip(b"\r\n"))
            if found is None:
                rest.append(line)
            elif len(self._lines) < _MOST_LINKS:
                self._lines.append(found)
        return b"".join(rest)

    def links(self, known: tuple[str, ...]) -> tuple[Link, ...]:
        """Return the links in the plugin's order; *known* are the secrets of the run."""
        return tuple(_link(line, known) for line in self._lines)


def _link(line: LinkLine, known: tuple[str, ...]) -> Link:
    facts = {name: _fact(value, known) for name, value in line.facts.items()}
    return Link(
        name=f"plugin/{line.name}",
        state=LinkState(line.state),
        text=redact(line.text, known),
        facts=facts,
        cure=redact(line.cure, known),
        is_report=True,
    )


def _fact(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [redact(str(each), known) for each in value]
    return redact(value, known) if isinstance(value, str) else value
