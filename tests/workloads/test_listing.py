"""The pods of a whole cluster: pages, lists that expire, refusals, and servers that never end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError, Kind
from keyferry.workloads.listing import MAX_EXPIRIES, PodSelection, list_pods
from keyferry.workloads.objects import ObjectKind
from keyferry.workloads.reader import ClusterReader
from support.api_server import Seen
from support.bobs_cluster import BobsCluster, bobs_cluster
from support.kube import TOKEN
from support.kubernetes_api import Json, KubernetesApi, pod, pull_secret
from support.plugins import PATIENCE_SECONDS

COUNT = 1203
EVERYTHING = PodSelection()


def made(at: int) -> Json:
    """Return the pod of a number; they are in order, a hundred in each namespace."""
    return {**pod(f"web-{at:05d}", f"team-{at // 100:04d}"), "status": {"phase": "Running"}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BobsCluster]:
    """A server on which bob may list the pods of all namespaces."""
    with bobs_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def api(cluster: BobsCluster) -> KubernetesApi:
    """The server."""
    return cluster.api


@pytest.fixture
def session(cluster: BobsCluster) -> ClusterSession:
    """A session of bob."""
    return cluster.kube.load()


def names(session: ClusterSession, selection: PodSelection = EVERYTHING) -> list[str]:
    """Return the selected pods."""
    found = list_pods(session, selection, timeout_seconds=PATIENCE_SECONDS)
    return [f"{each.text('metadata', 'namespace')}/{each.name}" for each in found]


def every_name() -> list[str]:
    """Return the names of all pods that are made."""
    return [f"team-{at // 100:04d}/web-{at:05d}" for at in range(COUNT)]


def queries(api: KubernetesApi) -> list[dict[str, list[str]]]:
    """Return the query of each list."""
    return [parse_qs(urlsplit(seen.path).query) for seen in api.seen]


def test_a_cluster_comes_in_pages_of_500(api: KubernetesApi, session: ClusterSession) -> None:
    """Each pod once, with the kind that the items of lists lack; pods that have ended stay on the server."""
    api.lists.made = (COUNT, made)
    assert names(session) == every_name()
    assert [each["limit"] for each in queries(api)] == [["500"]] * 3
    assert queries(api)[0]["fieldSelector"] == ["status.phase!=Succeeded,status.phase!=Failed"]
    (first, *_) = list_pods(session, EVERYTHING, timeout_seconds=PATIENCE_SECONDS)
    assert (first.kind, first.field("kind"), first.field("apiVersion")) == (ObjectKind.POD, "Pod", "v1")


def test_the_next_page_is_read_when_it_is_needed(api: KubernetesApi, session: ClusterSession) -> None:
    """So that no more than one page is in memory."""
    api.lists.made = (COUNT, made)
    pods = list_pods(session, EVERYTHING, timeout_seconds=PATIENCE_SECONDS)
    for _ in range(500):
        next(pods)
    assert len(api.seen) == 1
    next(pods)
    assert len(api.seen) == 2


def test_selections_are_the_servers(api: KubernetesApi, session: ClusterSession) -> None:
    """By namespace, labels, node and any field; pods that have ended only if they are asked for."""
    for name, namespace, node, phase, app in (
        ("a", "shop", "node1", "Pending", "web"),
        ("b", "shop", "node2", "Running", "db"),
        ("c", "shop", "node1", "Failed", "web"),
        ("d", "bank", "node1", "Succeeded", "db"),
    ):
        one = pod(name, namespace, nodeName=node)
        one["metadata"] = {"name": name, "namespace": namespace, "labels": {"app": app}}
        api.add({**one, "status": {"phase": phase}})
    assert names(session) == ["shop/a", "shop/b"]
    assert names(session, PodSelection(with_ended=True)) == ["bank/d", "shop/a", "shop/b", "shop/c"]
    assert names(session, PodSelection(namespace="bank", with_ended=True)) == ["bank/d"]
    assert names(session, PodSelection(label_selector="app=db")) == ["shop/b"]
    assert names(session, PodSelection(node="node1")) == ["shop/a"]
    assert names(session, PodSelection(field_selector="metadata.name!=a")) == ["shop/b"]


@pytest.mark.parametrize("expiries", [[True], [False], [None, True, False], [False, False, True, True]])
def test_a_list_that_expires_is_read_to_its_end(
    api: KubernetesApi, session: ClusterSession, expiries: list[bool | None]
) -> None:
    """With the token for the rest if the server offers one, else from the start again; each pod comes once."""
    api.lists.made = (COUNT, made)
    api.lists.expiries = expiries
    assert names(session) == every_name()
    assert not api.lists.expiries


def test_a_list_that_always_expires_ends(api: KubernetesApi, session: ClusterSession) -> None:
    """After some attempts, with the server's message."""
    api.lists.made = (COUNT, made)
    api.lists.expiries = [True] * 1000
    with pytest.raises(ClusterAuthError, match=r"cannot list pods: the list expired .* too old") as caught:
        names(session)
    assert caught.value.kind is Kind.CONTENT
    assert len(api.lists.expiries) == 1000 - MAX_EXPIRIES - 1


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(
    api: KubernetesApi, session: ClusterSession
) -> None:
    """500 pods with long annotations are more than an answer may have."""
    api.lists.made = (120, lambda at: {**made(at), "padding": "x" * 200_000})
    assert len(names(session)) == 120
    assert [each["limit"] for each in queries(api)] == [["500"], ["50"], ["50"], ["50"]]


def test_who_may_not_list_is_told_what_is_missing(api: KubernetesApi, session: ClusterSession) -> None:
    """The verb, the resource and where, with the server's message."""
    api.users[TOKEN].permitted = {("list", "pods", "shop")}
    assert names(session, PodSelection(namespace="shop")) == []
    with pytest.raises(
        ClusterAuthError, match=r"no permission to list pods: .* at the cluster scope"
    ) as caught:
        names(session)
    assert caught.value.kind is Kind.REFUSED
    with pytest.raises(ClusterAuthError, match=r'no permission to list pods in bank: .*the namespace "bank"'):
        names(session, PodSelection(namespace="bank"))


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_server_that_fails_is_no_empty_cluster(
    api: KubernetesApi, session: ClusterSession, status: int
) -> None:
    """Whatever it answers but a list is an error."""
    api.script.extend([status])
    api.always = status
    with pytest.raises(ClusterAuthError, match="cannot list pods"):
        names(session)


class HostileApi(KubernetesApi):
    """Never ends its lists: ``token`` makes the token of each page."""

    def respond(self, seen: Seen) -> tuple[int, bytes]:
        """Return a page of one pod."""
        at = len(self.seen)
        items = [{"metadata": {"namespace": "a", "name": f"{at:09d}"}}]
        return 200, json.dumps({"items": items, "metadata": {"continue": self.token(at)}}).encode()

    def token(self, at: int) -> str:
        """Return the token of a page."""
        return "again"


class InventiveApi(HostileApi):
    """Never ends its lists, with new tokens."""

    def token(self, at: int) -> str:
        """Return a new token."""
        return str(at)


@pytest.mark.parametrize(
    ("hostile", "error"),
    [(HostileApi, "the same page again and again"), (InventiveApi, "more than 5 pages")],
)
def test_endless_pages_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: type[HostileApi], error: str
) -> None:
    """By a token that comes again, or by their number."""
    monkeypatch.setattr("keyferry.workloads.listing.MAX_PAGES", 5)
    with bobs_cluster(tmp_path, hostile) as cluster:
        with pytest.raises(ClusterAuthError, match=error):
            names(cluster.kube.load())
        assert len(cluster.api.seen) <= 5


def test_what_pods_share_is_read_once(api: KubernetesApi, session: ClusterSession) -> None:
    """Also what does not exist or is refused."""
    api.users[TOKEN].permitted = {("get", "secrets", "shop")}
    api.add(pull_secret("one"))
    reader = ClusterReader(session, PATIENCE_SECONDS)
    for _ in range(3):
        found = [reader.get(ObjectKind.SECRET, place, "one") for place in ("shop", "bank")]
        assert [str(each) for each in found][1].startswith("no permission to get secrets in bank")
        reader.get(ObjectKind.SECRET, "shop", "two")
    assert len(api.seen) == 3
