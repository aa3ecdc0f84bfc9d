"""The pods of a whole cluster: pages, lists that expire, and servers that fail or never end.

What is selected, and who may not list pods, is in ``tests/explain/test_waiting_pods.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import keyferry
from keyferry.workloads.listing import PodSelection, list_pods
from support.api_server import Seen
from support.bobs_cluster import BobsCluster, bobs_cluster
from support.kubernetes_api import Json, KubernetesApi, pod

COUNT = 1203


def made(at: int) -> Json:
    """Return the pod of a number; they are in order, a hundred in each namespace."""
    return {**pod(f"web-{at:05d}", f"team-{at // 100:04d}"), "status": {"phase": "Running"}}


def count(bob: BobsCluster) -> int:
    """Return how many pods are looked at."""
    cluster = keyferry.ClusterOptions(kubeconfig=str(bob.kube.path))
    return keyferry.explain_cluster(keyferry.Request(all_namespaces=True, cluster=cluster)).total


def queries(api: KubernetesApi) -> list[dict[str, list[str]]]:
    """Return the query of each list."""
    return [parse_qs(urlsplit(seen.path).query) for seen in api.seen]


def test_a_cluster_comes_in_pages_of_500(bob: BobsCluster) -> None:
    """Pods that have ended stay on the server."""
    bob.api.lists.made = (COUNT, made)
    assert count(bob) == COUNT
    assert [each["limit"] for each in queries(bob.api)] == [["500"]] * 3
    assert queries(bob.api)[0]["fieldSelector"] == ["status.phase!=Succeeded,status.phase!=Failed"]


def test_the_next_page_is_read_when_it_is_needed(bob: BobsCluster) -> None:
    """So that no more than one page is in memory."""
    bob.api.lists.made = (COUNT, made)
    pods = list_pods(bob.kube.load(), PodSelection())
    for _ in range(500):
        next(pods)
    assert len(bob.api.seen) == 1
    next(pods)
    assert len(bob.api.seen) == 2


@pytest.mark.parametrize("expiries", [[True], [False], [None, True, False], [False, False, True, True]])
def test_a_list_that_expires_is_read_to_its_end(bob: BobsCluster, expiries: list[bool | None]) -> None:
    """With the token for the rest if the server offers one, else from the start again; each pod comes once."""
    bob.api.lists.made = (COUNT, made)
    bob.api.lists.expiries = expiries
    assert count(bob) == COUNT
    assert not bob.api.lists.expiries


def test_a_list_that_always_expires_ends(bob: BobsCluster) -> None:
    """After some attempts, with the server's message."""
    bob.api.lists.made = (COUNT, made)
    bob.api.lists.expiries = [True] * 1000
    with pytest.raises(
        keyferry.ClusterAuthError, match=r"cannot list pods: the list expired .* too old"
    ) as caught:
        count(bob)
    assert caught.value.kind is keyferry.Kind.CONTENT
    assert len(bob.api.seen) < 100


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(bob: BobsCluster) -> None:
    """500 pods with long annotations are more than an answer may have."""
    bob.api.lists.made = (120, lambda at: {**made(at), "padding": "x" * 200_000})
    assert count(bob) == 120
    assert [each["limit"] for each in queries(bob.api)] == [["500"], ["50"], ["50"], ["50"]]


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_server_that_fails_is_no_empty_cluster(bob: BobsCluster, status: int) -> None:
    """Whatever it answers but a list is an error."""
    bob.api.always = status
    with pytest.raises(keyferry.ClusterAuthError, match="cannot list pods"):
        count(bob)


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
    with bobs_cluster(tmp_path, hostile) as bob:
        with pytest.raises(keyferry.ClusterAuthError, match=error):
            count(bob)
        assert len(bob.api.seen) <= 5
