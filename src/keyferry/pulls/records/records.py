"""The counterpart of the kubelet's pull manager: intents, records, decisions, recovery and pruning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from keyferry._core.clock import time_ns
from keyferry._core.host_root import is_on_host, on_host
from keyferry._core.type_forms import Protocol
from keyferry._core.values import Value, replace
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord, ImagePullIntent
from keyferry.errors import EnvironmentProblem, ImageNameError, KeyferryError, Kind, RecordError
from keyferry.images.keyring import Credential
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.settings import Node
from keyferry.images.reference import trim
from keyferry.pulls.kubelet_guard import check_root
from keyferry.pulls.records.decide import (
    Decision,
    PodCredentials,
    Situation,
    credentials_used,
    decide,
    pod_credentials,
)
from keyferry.pulls.records.disk import Disk
from keyferry.pulls.records.format import merge_credentials
from keyferry.pulls.records.policy import DEFAULT, NEVER, VerificationPolicy, make_policy
from keyferry.pulls.records.store import (
    FOLDER,
    CacheSizes,
    Listing,
    RecordFiles,
    RecordLookup,
    RecordMemory,
)

# Credentials, or a function that returns them and may run plugins.
Shown = PodCredentials | Iterable[Credential] | Callable[[], PodCredentials | Iterable[Credential]]


class PresentImage(Protocol):
    """An image of the runtime, with all its names."""

    @property
    def id(self) -> str:
        """The runtime's reference to it."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its names with tags."""

    @property
    def digests(self) -> tuple[str, ...]:
        """Its names with digests."""


class Recovery(Value):
    """The result of a recovery: pairs of image and reference, images whose intents remain, and problems."""

    recovered: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[KeyferryError, ...] = ()


class Pruning(Value):
    """The result of pruning: the removed records, the kept ones, and problems of files that are kept too."""

    removed: tuple[ImagePulledRecord, ...] = ()
    kept: tuple[ImagePulledRecord, ...] = ()
    problems: tuple[RecordError, ...] = ()


class PullCounters:
    """Counters of decisions and of requests for images; safe to update from many threads."""

    __slots__ = ("_checks", "_lock", "_requests")

    def __init__(self) -> None:
        self._lock = Lock()
        self._checks: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], int] = {}

    def count_check(self, result: str) -> None:
        """Count a decision by its label in the kubelet's metric; an empty label is not counted."""
        if result:
            with self._lock:
                self._checks[result] = self._checks.get(result, 0) + 1

    def count_request(
        self, pull_policy: str, *, present_locally: bool | None, pull_required: bool | None
    ) -> None:
        """Count a container's request for an image; None means that the value is not known."""
        key = (pull_policy.lower(), _word(present_locally), _word(pull_required))
        with self._lock:
            self._requests[key] = self._requests.get(key, 0) + 1

    @property
    def checks(self) -> dict[str, int]:
        """The number of decisions by result."""
        with self._lock:
            return dict(self._checks)

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """The number of requests by pull policy, by presence, and by whether a pull was required."""
        with self._lock:
            return dict(self._requests)


def _word(value: bool | None) -> str:  # noqa: FBT001 - the function converts this value
    return "unknown" if value is None else str(value).lower()


class Records:
    """The kubelet's records of which pods may use the images of a node; see ``load_records``.

    Safe to use from many threads and processes, and after a fork.
    """

    def __init__(
        self,
        root: str,
        policy: VerificationPolicy,
        *,
        read_only: bool = False,
        prepares: bool = False,
        sizes: CacheSizes | None = None,
        disk: Disk | None = None,
        clock: Callable[[], int] = time_ns,
        before_writing: Callable[[], None] | None = None,
    ) -> None:
        self.policy = policy
        self.read_only = read_only
        self.counters = PullCounters()
        self._root = root
        self._prepares = prepares
        self._sizes = sizes
        self._disk = disk
        self._clock = clock
        self._before_writing = before_writing
        self._open()

    def __repr__(self) -> str:
        mode = ", read only" if self.read_only else ""
        return f"<Records below {self.files.root}: {self.policy!r}{mode}>"

    def _open(self) -> None:
        self._pid = os.getpid()
        memory = None if self._sizes is None else RecordMemory(self._sizes)
        self._files = RecordFiles(self._root, self._disk, memory)
        # How many pulls of an image this process makes; changed while the files' lock is held.
        self._under_way: dict[str, int] = {}
        if self._prepares:
            self._files.prepare()

    @property
    def files(self) -> RecordFiles:
        """The files of the records."""
        # A forked process opens its own: pulls, locks and memory belong to the process that opened them.
        if os.getpid() != self._pid:
            self._open()
        return self._files

    @property
    def memory(self) -> RecordMemory | None:
        """The memory in front of the files, or None; what other processes have changed is forgotten."""
        memory = self.files.memory
        if memory is not None:
            memory.look(self.files.lock.generation())
        return memory

    def close(self) -> None:
        """Close the lock's file, which releases the images that this process marked as being pulled."""
        self.files.close()

    def list(self) -> Listing[ImagePulledRecord]:
        """Return every record, and the problems of files that could not be read."""
        return self.files.list_records()

    def list_intents(self) -> Listing[ImagePullIntent]:
        """Return the intent of every pull that is not finished, and the problems of files that could not be read."""
        return self.files.list_intents()

    def find(self, image_ref: str) -> RecordLookup:
        """Return the lookup of a runtime's reference: a record, none, or a problem."""
        lookup = self._find(image_ref)
        doubt = None if lookup.exists else self.files.find_doubt(image_ref)
        return lookup if doubt is None else RecordLookup(problem=doubt)

    def _find(self, image_ref: str) -> RecordLookup:
        memory = self.memory
        if memory is not None:
            is_known, record = memory.records.look_up(image_ref)
            if is_known:
                return RecordLookup(record=record)
        return self.files.find_record(image_ref)

    def decide(
        self,
        image: str,
        image_ref: str,
        credentials: Shown = (),
        policy: VerificationPolicy | None = None,
    ) -> Decision:
        """Decide whether the image must be pulled before a pod may use it.

        An empty *image_ref* means that the image is not on the node. *credentials* are those that the pod has for the
        image; a callable is called only if they matter. A new secret of the pod that matches is recorded, unless a
        *policy* is given, which is tried instead of the node's.
        """
        situation = self._look(image, image_ref)
        decision = decide(situation, policy or self.policy, lambda: _shown(credentials))
        if policy is not None:
            return decision
        self.counters.count_check(decision.result)
        if decision.addition is None or self.read_only:
            return decision
        try:
            self._check_writing()
            self._add(image, image_ref, decision.addition)
        except KeyferryError as error:
            return replace(decision, write_problem=error)
        return decision

    async def decide_async(
        self, image: str, image_ref: str, credentials: Shown = (), policy: VerificationPolicy | None = None
    ) -> Decision:
        """Do the same as ``decide``, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.decide, image, image_ref, credentials, policy)

    def record_intent(self, image: str) -> None:
        """Record durably that *image* is about to be pulled.

        Raise RecordError if that fails; the image must not be pulled then.
        """
        self._check_writing()
        with self.files.writing():
            self.files.write_intent(image)
            self.files.lock.hold_image(image)
            self._under_way[image] = self._under_way.get(image, 0) + 1

    def record_pulled(
        self, image: str, image_ref: str, credential: Credential | ImagePullCredentials | None
    ) -> None:
        """Record that a pull succeeded with *credential*, None for an anonymous one.

        If that fails, the intent remains, so that the image still counts as pulled, and its use is verified.
        """
        known = credential if isinstance(credential, ImagePullCredentials) else credentials_used(credential)
        self._add(image, image_ref, known)
        self.record_failed(image)

    def record_failed(self, image: str) -> None:
        """Record that a pull failed; the intent is removed when no process pulls the image any more."""
        self._check_mode()
        with self.files.writing():
            if self._under_way.get(image, 0) > 1:
                self._under_way[image] -= 1
                return
            if not self.files.lock.is_pulled_elsewhere(image):
                self.files.delete_intent(image)
            self._under_way.pop(image, None)
            self.files.lock.release_image(image)

    def recover(self, images: Callable[[], Iterable[PresentImage]]) -> Recovery:
        """Turn the intents of processes that have ended into records, for every image that was pulled.

        These records contain no credentials, so the use of the images is verified. *images* is called only if there
        are intents.
        """
        self._check_writing()
        listing = self.files.list_intents()
        waiting = {intent.image for intent in listing.values}
        problems: list[KeyferryError] = list(listing.problems)
        recovered: list[tuple[str, str]] = []
        try:
            present = list(images()) if waiting else []
        except KeyferryError as error:
            present = []
            problems.append(error)
        for image, image_ref in match_intents(waiting, present):
            try:
                if self._recover_one(image, image_ref):
                    recovered.append((image, image_ref))
            except KeyferryError as error:
                problems.append(error)
        done = {image for image, _ in recovered}
        return Recovery(
            recovered=tuple(recovered), left=tuple(sorted(waiting - done)), problems=tuple(problems)
        )

    def prune(
        self, image_ids: Iterable[str], until_ns: int | None = None, *, dry_run: bool = False
    ) -> Pruning:
        """Remove the records of images that the node no longer has, if they are older than *until_ns*.

        *until_ns* is the time at which the listing of images began: a later record belongs to a later pull.
        """
        present = frozenset(image_ids)
        until = self._clock() if until_ns is None else until_ns
        if dry_run:
            return _split_gone(self.files.list_records(), present, until)
        self._check_writing()
        with self.files.writing():
            pruning = _split_gone(self.files.list_records(), present, until)
            for record in pruning.removed:
                self.files.delete_record(record.image_ref)
        return pruning

    def _check_writing(self) -> None:
        """Raise if a new write must not begin; the end of a pull is written without this check."""
        self._check_mode()
        if self._before_writing is not None:
            self._before_writing()

    def _check_mode(self) -> None:
        if self.read_only:
            raise RecordError(self.files.folder, "these records are open for reading only")

    def _look(self, image: str, image_ref: str) -> Situation:
        if not image_ref:
            return Situation(image=image, image_ref=image_ref)
        lookup = self.find(image_ref)
        if lookup.exists:
            return Situation(image=image, image_ref=image_ref, lookup=lookup)
        try:
            has_intent = image in self._under_way or self._intent_exists(image)
        except RecordError as error:
            return Situation(image=image, image_ref=image_ref, lookup=lookup, problem=error)
        if not has_intent:
            # Looked up again, because a pull may have finished since: its record is written, its intent removed.
            lookup = self.find(image_ref)
        return Situation(image=image, image_ref=image_ref, lookup=lookup, has_intent=has_intent)

    def _intent_exists(self, image: str) -> bool:
        memory = self.memory
        if memory is not None:
            is_known, intent = memory.intents.look_up(image)
            if is_known:
                return intent is not None
        return self.files.intent_exists(image)

    def _add(self, image: str, image_ref: str, credentials: ImagePullCredentials | None) -> None:
        """Add credentials to the record of a reference; None only records that the image was pulled."""
        try:
            name = trim(image)
        except ImageNameError as error:
            text = f'invalid image name "{image}": {error.kubernetes_text}'
            raise RecordError("", f"cannot record the pull: {error.message}", text, Kind.CONTENT) from None
        self._check_mode()
        with self.files.writing():
            # Read from the file and not from the memory, because a kubelet may have written it.
            record = self.files.find_record(image_ref).record
            if record is None:
                mapping = {} if credentials is None else {name: credentials}
                now = self._clock()
                new = ImagePulledRecord(image_ref=image_ref, last_updated_ns=now, credential_mapping=mapping)
                self.files.write_record(new)
                return
            merged, changed = merge_credentials(record, name, credentials, self._clock)
            if changed:
                self.files.write_record(merged)

    def _recover_one(self, image: str, image_ref: str) -> bool:
        if image in self._under_way or self.files.lock.is_pulled_elsewhere(image):
            return False
        self._add(image, image_ref, None)
        with self.files.writing():
            self.files.delete_intent(image)
        return True


def _shown(credentials: Shown) -> PodCredentials:
    found = credentials() if callable(credentials) else credentials
    return found if isinstance(found, PodCredentials) else pod_credentials(found)


def _split_gone(listing: Listing[ImagePulledRecord], present: frozenset[str], until_ns: int) -> Pruning:
    """Separate the records of images that no longer exist from the others; later ones than *until_ns* are kept."""
    removed: list[ImagePulledRecord] = []
    kept: list[ImagePulledRecord] = []
    for record in listing.believed:
        is_gone = record.image_ref not in present and record.last_updated_ns < until_ns
        (removed if is_gone else kept).append(record)
    return Pruning(removed=tuple(removed), kept=tuple(kept), problems=listing.problems)


def match_intents(waiting: set[str], present: Iterable[PresentImage]) -> Iterator[tuple[str, str]]:
    """Yield each image of *waiting* that is present, with its reference; names are compared as text."""
    for each in present:
        for image in sorted(waiting.intersection((*each.tags, *each.digests))):
            yield image, each.id


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
    *max_parallel_pulls* determine the size of the memory as in the kubelet. Raise PolicyError if the policy is invalid,
    RecordError if the folders cannot be used, and EnvironmentProblem if a running kubelet uses the root. Set
    *no_kubelet* if there is no kubelet and processes are not visible. *find_node* returns the current state of the
    node.
    """
    chosen = policy if isinstance(policy, VerificationPolicy) else make_policy(policy, allowlist)
    if read_only:
        return inspect_records(root, policy=chosen)
    return open_records(
        root,
        policy=chosen,
        sizes=CacheSizes.for_node(max_pods, max_parallel_pulls),
        before_writing=lambda: check_root(root, find_node(), no_kubelet=no_kubelet),
    )


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
    if not is_on_host(folder, os.path.isdir):
        raise EnvironmentProblem(_why_none(root, folder))
    if not os.access(on_host(folder), os.R_OK | os.X_OK):
        raise EnvironmentProblem(
            f"{folder}: permission denied; it belongs to root, so run the command with sudo"
        )
    return Records(
        root,
        policy or VerificationPolicy(),
        read_only=read_only,
        before_writing=lambda: check_root(root, find_node(), no_kubelet=no_kubelet),
    )


def observe_records(root: str, policy: VerificationPolicy | None) -> Records:
    """Open the records of a running kubelet with its policy, for reading; one that keeps no records verifies no image.

    Raise EnvironmentProblem if they cannot be read.
    """
    if is_on_host(root, os.path.isdir) and not is_on_host(os.path.join(root, FOLDER), os.path.lexists):
        return Records(root, make_policy(NEVER), read_only=True)
    return inspect_records(root, policy=policy)


def open_records(
    root: str,
    *,
    policy: VerificationPolicy | None = None,
    sizes: CacheSizes | None = None,
    cached: bool = True,
    images: Callable[[], Iterable[PresentImage]] | None = None,
    disk: Disk | None = None,
    clock: Callable[[], int] = time_ns,
    before_writing: Callable[[], None] | None = None,
) -> Records:
    """Open records like :func:`load_records`, from separate parts; with *images*, recover the intents of a crash.

    *before_writing* raises if writing is not allowed.
    """
    if before_writing is not None:
        before_writing()
    records = Records(
        root,
        policy or VerificationPolicy(),
        prepares=True,
        sizes=(sizes or CacheSizes.for_node()) if cached else None,
        disk=disk,
        clock=clock,
        before_writing=before_writing,
    )
    if images is not None:
        records.recover(images)
    return records


def _why_none(root: str, folder: str) -> str:
    expected = f"expected the root of a kubelet, such as {KUBELET_ROOT}; choose another with --root"
    if not is_on_host(root):
        return f"{root}: there is no such folder; {expected}"
    gate = "kubelets keep records from 1.35 on, or with the feature gate KubeletEnsureSecretPulledImages"
    return f"{folder}: there are no pull records; {expected} ({gate})"
