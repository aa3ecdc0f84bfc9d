"""Open a node's pull records: with a cache and locks for programs that pull, or for reading only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from keyferry._core.clock import time_ns
from keyferry.errors import EnvironmentProblem
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.settings import Node
from keyferry.pulls.kubelet_guard import check_root
from keyferry.pulls.records.cache import CachedRecords, CacheSizes
from keyferry.pulls.records.disk import Disk
from keyferry.pulls.records.files import FOLDER, RecordFiles
from keyferry.pulls.records.maintenance import PresentImage
from keyferry.pulls.records.policy import DEFAULT, NEVER, VerificationPolicy, make_policy
from keyferry.pulls.records.records import Records, Store

__all__ = ["KUBELET_ROOT", "inspect_records", "load_records", "observe_records", "open_records"]


def load_records(
    root: str = KUBELET_ROOT,
    *,
    policy: str | VerificationPolicy = DEFAULT,
    allowlist: Iterable[str] = (),
    max_pods: int = 110,
    max_parallel_pulls: int | None = None,
    read_only: bool = False,
    no_kubelet: bool = False,
    find_node: Callable[[], Node] = Node,
) -> Records:
    """Open the records of a node, for a program that pulls; make folders and rewrite files of older versions.

    With *read_only*, nothing is made, changed or locked, so a kubelet may be running. *max_pods* and
    *max_parallel_pulls* determine the size of the cache as in the kubelet. Raise PolicyError if the policy is invalid,
    RecordError if the folders cannot be used, and EnvironmentProblem if a running kubelet uses the root. Set
    *no_kubelet* if there is no kubelet and processes are not visible. *find_node* returns the current state of the
    node.
    """
    chosen = policy if isinstance(policy, VerificationPolicy) else make_policy(policy, allowlist)
    if read_only:
        return inspect_records(root, policy=chosen)
    sizes = CacheSizes.for_node(max_pods, max_parallel_pulls)
    return open_records(
        root,
        policy=chosen,
        sizes=sizes,
        max_parallel_pulls=max_parallel_pulls,
        before_writing=lambda: check_root(root, find_node(), no_kubelet=no_kubelet),
    )


def _why_none(root: str, folder: str) -> str:
    expected = f"expected the root of a kubelet, such as {KUBELET_ROOT}; choose another with --root"
    if not os.path.exists(root):
        return f"{root}: there is no such folder; {expected}"
    gate = "kubelets keep records from 1.35 on, or with the feature gate KubeletEnsureSecretPulledImages"
    return f"{folder}: there are no pull records; {expected} ({gate})"


def inspect_records(
    root: str = KUBELET_ROOT,
    *,
    policy: VerificationPolicy | None = None,
    read_only: bool = True,
    no_kubelet: bool = False,
    find_node: Callable[[], Node] = Node,
) -> Records:
    """Open the records of a node without making, changing or locking anything.

    Raise EnvironmentProblem if there are none, or they cannot be read. Without *read_only*, a write raises
    EnvironmentProblem if a running kubelet uses the root, as in :func:`load_records`.
    """
    folder = os.path.join(root, FOLDER)
    if not os.path.isdir(folder):
        raise EnvironmentProblem(_why_none(root, folder))
    if not os.access(folder, os.R_OK | os.X_OK):
        raise EnvironmentProblem(
            f"{folder}: permission denied; it belongs to root, so run the command with sudo"
        )
    return Records(
        lambda: RecordFiles(root),
        policy or VerificationPolicy(),
        read_only=read_only,
        before_writing=lambda: check_root(root, find_node(), no_kubelet=no_kubelet),
    )


def observe_records(root: str, policy: VerificationPolicy | None) -> Records:
    """Open the records of a running kubelet with its policy, for reading; one that keeps no records verifies no image.

    Raise EnvironmentProblem if they cannot be read.
    """
    if os.path.isdir(root) and not os.path.lexists(os.path.join(root, FOLDER)):
        return Records(lambda: RecordFiles(root), make_policy(NEVER), read_only=True)
    return inspect_records(root, policy=policy)


def open_records(
    root: str,
    *,
    policy: VerificationPolicy | None = None,
    sizes: CacheSizes | None = None,
    cached: bool = True,
    images: Callable[[], Iterable[PresentImage]] | None = None,
    max_parallel_pulls: int | None = None,
    disk: Disk | None = None,
    clock: Callable[[], int] = time_ns,
    before_writing: Callable[[], None] | None = None,
) -> Records:
    """Open records like :func:`load_records`, from separate parts; with *images*, recover the intents of a crash.

    *before_writing* raises if writing is not allowed.
    """
    if before_writing is not None:
        before_writing()

    def open_store() -> Store:
        files = RecordFiles(root, disk)
        store: Store = files
        if cached:
            store = CachedRecords(files, sizes, max_parallel_pulls=max_parallel_pulls)
        store.prepare()
        return store

    records = Records(
        open_store,
        policy or VerificationPolicy(),
        max_parallel_pulls=max_parallel_pulls,
        clock=clock,
        before_writing=before_writing,
    )
    if images is not None:
        records.recover(images)
    return records
