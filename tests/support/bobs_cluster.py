"""An API server and bob, who may read in all of its namespaces, on a machine without a kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from .certificates import Authority
from .commands import run_in_process
from .kube import TOKEN, Kube
from .kube_commands import Done
from .kubernetes_api import KubernetesApi

READABLE = "pods secrets serviceaccounts events"


@dataclass
class BobsCluster:
    """The server, and bob's kubeconfig for it."""

    api: KubernetesApi
    kube: Kube

    @property
    def env(self) -> dict[str, str]:
        """The environment in which bob runs commands."""
        return {"HOME": str(self.kube.folder), "KUBECONFIG": str(self.kube.path), "KUBERC": ""}

    def run(self, *words: str, columns: int | str = 80) -> Done:
        """Run a command of keyferry as bob; no output has the password of a test."""
        env = {**self.env, "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
        done = run_in_process(*words, cwd=None, **env)
        assert "kf-marked" not in done.stdout + done.stderr
        return done

    def explain(self, *words: str, columns: int | str = 80) -> Done:
        """Run ``keyferry explain`` as bob."""
        return self.run("explain", *words, columns=columns)


@cache
def _authority() -> Authority:
    return Authority()


@contextmanager
def bobs_cluster(folder: Path, api: type[KubernetesApi] = KubernetesApi) -> Iterator[BobsCluster]:
    """Yield a cluster without objects; *api* is the kind of server."""
    with api(_authority()) as running:
        running.add_user(TOKEN, "bob")
        running.permit(TOKEN, "get list", READABLE)
        kube = Kube(folder)
        kube.write(running.url, ca=_authority().pem, user={"token": TOKEN})
        yield BobsCluster(running, kube)


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[BobsCluster]:
    """A cluster in which bob may read everything."""
    with bobs_cluster(tmp_path) as found:
        yield found
