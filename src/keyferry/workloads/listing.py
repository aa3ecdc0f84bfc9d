"""The pods and workloads of a namespace or of the whole cluster, page by page: only one page is in memory."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.log import log_debug
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, Json, call_api, next_page
from keyferry.errors import ClusterAuthError, Kind
from keyferry.workloads.objects import RESOURCES, KubernetesObject, ObjectKind
from keyferry.workloads.pods import DEFAULT_NAMESPACE
from keyferry.workloads.request import Request

__all__ = ["MAX_EXPIRIES", "MAX_PAGES", "PodSelection", "list_pods", "list_workloads", "select_pods"]

# Ten times the pods that Kubernetes supports in one cluster; a server that sends more pages never ends.
MAX_PAGES = 3_000
# How often a list may expire between two pages, which happens after some minutes.
MAX_EXPIRIES = 20
# A page that is too large is asked for again with fewer pods.
_PAGE_SIZES = (500, 50, 5)
_EXPIRED = 410
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


class PodSelection(Value):
    """Which pods are meant: those of a *namespace*, or of all if it is empty, that the selectors select.

    The selectors have kubectl's syntax; *node* is the node that the pods are on. Pods that have ended, with the phase
    Succeeded or Failed, are left out unless *with_ended*.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    node: str = ""
    with_ended: bool = False

    @property
    def query(self) -> dict[str, str]:
        """The selectors as the API server takes them."""
        fields = (
            "" if self.with_ended else _NOT_ENDED,
            f"spec.nodeName={self.node}" if self.node else "",
            self.field_selector,
        )
        found = {"labelSelector": self.label_selector, "fieldSelector": ",".join(filter(None, fields))}
        return {name: value for name, value in found.items() if value}


def select_pods(request: Request, session: ClusterAccess) -> PodSelection:
    """Return the pods that a request is about which names none: by default those of the context's namespace."""
    namespace = request.namespace or session.namespace or DEFAULT_NAMESPACE
    return PodSelection(
        namespace="" if request.all_namespaces else namespace,
        label_selector=request.label_selector,
        field_selector=request.field_selector,
        node=request.on_node,
    )


def list_pods(
    session: ClusterAccess, selection: PodSelection, *, timeout_seconds: float = 60.0
) -> Iterator[KubernetesObject]:
    """Yield the selected pods in the order of their namespaces and names, each once; a page is read when it is needed.

    Raise ClusterAuthError if the server cannot be reached, refuses the list, or never ends it.
    """
    yield from _list(session, ObjectKind.POD, selection.namespace, selection.query, timeout_seconds)


def list_workloads(
    session: ClusterAccess, kind: ObjectKind, selection: PodSelection, *, timeout_seconds: float = 60.0
) -> Iterator[KubernetesObject]:
    """Yield the workloads of a kind in the namespace of the selection that have its labels, as ``list_pods`` does."""
    query = {"labelSelector": selection.label_selector} if selection.label_selector else {}
    yield from _list(session, kind, selection.namespace, query, timeout_seconds)


def _list(
    session: ClusterAccess, kind: ObjectKind, namespace: str, query: dict[str, str], timeout_seconds: float
) -> Iterator[KubernetesObject]:
    pages = _Pages(session, kind, namespace, query, timeout_seconds)
    origin, group = hide_in_url(session.server), RESOURCES[kind].group
    head = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind.value}
    while (page := pages.read()) is not None:
        page.reverse()
        # Nothing but the objects that are left is kept.
        while page:
            yield KubernetesObject(origin=origin, kind=kind, value={**head, **page.pop()})


class _Pages:
    """Reads a list of objects. One that expires goes on with the rest that the server offers, or else begins again."""

    def __init__(
        self,
        session: ClusterAccess,
        kind: ObjectKind,
        namespace: str,
        query: dict[str, str],
        timeout_seconds: float,
    ) -> None:
        resource = RESOURCES[kind]
        place = f"namespaces/{encode_percent(namespace)}/" if namespace else ""
        self._path = f"{resource.path}/{place}{resource.plural}"
        self._action = ApiAction(verb="list", resource=resource.rule_name, namespace=namespace)
        self._session = session
        self._query = query
        self._timeout_seconds = timeout_seconds
        self._sizes = iter(_PAGE_SIZES)
        self._size = next(self._sizes)
        self._token: str | None = ""
        self._asked = self._expired = 0
        # The last object that was returned: a list that begins again has all before it once more.
        self._last = ""

    def read(self) -> list[Json] | None:
        """Return the objects of the next page; None after the last one."""
        while self._token is not None:
            page = self._ask(self._token)
            if isinstance(page, ApiProblem):
                self._recover(page)
                continue
            token = next_page(page)
            if token and token == self._token:
                raise self._failure("the server sends the same page again and again")
            self._token = token or None
            return self._unseen(page)
        return None

    def _ask(self, token: str) -> Json | ApiProblem:
        self._asked += 1
        if self._asked > MAX_PAGES:
            raise self._failure(f"the server sends more than {MAX_PAGES:,} pages")
        query = {**self._query, "limit": str(self._size), **({"continue": token} if token else {})}
        path = f"{self._path}?{encode_query(query)}"
        return call_api(self._session, self._action, path, timeout_seconds=self._timeout_seconds)

    def _recover(self, problem: ApiProblem) -> None:
        """Set what to ask for after a problem; raise ClusterAuthError if there is nothing."""
        smaller = next(self._sizes, 0) if problem.kind is Kind.CONTENT else 0
        if smaller:
            self._size = smaller
            return
        if problem.status != _EXPIRED:
            # The list itself always exists: a server without one is no API server.
            kind = Kind.ERROR if problem.kind is Kind.NOT_FOUND else problem.kind
            raise ClusterAuthError("", str(problem), kind=kind)
        self._expired += 1
        if self._expired > MAX_EXPIRIES:
            raise self._failure(f"the list expired {MAX_EXPIRIES} times before its end: {problem.message}")
        log_debug("workloads", "the list expired, and %s", "goes on" if problem.next_page else "restarts")
        self._token = problem.next_page

    def _unseen(self, page: Json) -> list[Json]:
        """Return the objects of a page that come after the last one that was returned."""
        items = page.get("items")
        found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        if self._expired:
            found = [each for each in found if _key(each) > self._last]
        self._last = max(self._last, _key(found[-1])) if found else self._last
        return found

    def _failure(self, message: str) -> ClusterAuthError:
        return ClusterAuthError("", f"cannot {self._action}: {message}", kind=Kind.CONTENT)


def _key(item: Json) -> str:
    """Return the place of an object in the order of a list, which is that of its key in etcd."""
    metadata = item.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    return f"{fields.get('namespace')}/{fields.get('name')}"
