"""The counterpart of the kubelet's pull manager: intents, records, decisions, recovery and pruning."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable

from keyferry._core.clock import time_ns
from keyferry._core.values import replace
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord, ImagePullIntent
from keyferry.errors import ImageNameError, KeyferryError, Kind, RecordError
from keyferry.images.keyring import Credential
from keyferry.images.reference import trim
from keyferry.pulls.records.cache import CachedRecords
from keyferry.pulls.records.counters import PullCounters
from keyferry.pulls.records.decide import credentials_used, decide, pod_credentials
from keyferry.pulls.records.decision import Decision, PodCredentials, Situation
from keyferry.pulls.records.files import RecordFiles
from keyferry.pulls.records.lookups import Listing, RecordLookup
from keyferry.pulls.records.maintenance import (
    PresentImage,
    Pruning,
    Recovery,
    match_intents,
    split_gone_records,
)
from keyferry.pulls.records.merge import merge_credentials, new_record
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.stripes import StripedLocks

__all__ = ["Records"]

Store = RecordFiles | CachedRecords
# Credentials, or a function that returns them and may run plugins.
Shown = PodCredentials | Iterable[Credential] | Callable[[], PodCredentials | Iterable[Credential]]


class Records:
    """The kubelet's records of which pods may use the images of a node; see ``load_records``.

    Safe to use from many threads and processes, and after a fork.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        policy: VerificationPolicy,
        *,
        read_only: bool = False,
        max_parallel_pulls: int | None = None,
        clock: Callable[[], int] = time_ns,
        before_writing: Callable[[], None] | None = None,
    ) -> None:
        self.policy = policy
        self.read_only = read_only
        self.counters = PullCounters()
        self._open_store = open_store
        self._max_parallel_pulls = max_parallel_pulls
        self._clock = clock
        self._before_writing = before_writing
        self._begin()

    def __repr__(self) -> str:
        mode = ", read only" if self.read_only else ""
        return f"<Records below {self.files.root}: {self.policy!r}{mode}>"

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._opened = self._open_store()
        self._under_way: dict[str, int] = {}
        self._image_locks = StripedLocks(self._max_parallel_pulls)

    @property
    def _store(self) -> Store:
        # A forked process opens its own store: pulls, locks and cache belong to the process that opened them.
        if os.getpid() != self._pid:
            self._begin()
        return self._opened

    @property
    def files(self) -> RecordFiles:
        """The files of the records."""
        store = self._store
        return store.files if isinstance(store, CachedRecords) else store

    @property
    def memory(self) -> CachedRecords | None:
        """The cache in front of the files, or None."""
        store = self._store
        return store if isinstance(store, CachedRecords) else None

    def close(self) -> None:
        """Close the lock's file, which releases the images that this process marked as being pulled."""
        self._store.close()

    def list(self) -> Listing[ImagePulledRecord]:
        """Return every record, and the problems of files that could not be read."""
        return self._store.list_records()

    def list_intents(self) -> Listing[ImagePullIntent]:
        """Return the intent of every pull that is not finished, and the problems of files that could not be read."""
        return self._store.list_intents()

    def find(self, image_ref: str) -> RecordLookup:
        """Return the lookup of a runtime's reference: a record, none, or a problem."""
        return self._store.find_record(image_ref)

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
            self._begin_writing()
            self._add(image, image_ref, decision.addition)
        except KeyferryError as error:
            return replace(decision, write_problem=error)
        return decision

    async def decide_async(
        self, image: str, image_ref: str, credentials: Shown = (), policy: VerificationPolicy | None = None
    ) -> Decision:
        """Do the same as ``decide``, without blocking the event loop."""
        return await asyncio.to_thread(self.decide, image, image_ref, credentials, policy)

    def record_intent(self, image: str) -> None:
        """Record durably that *image* is about to be pulled.

        Raise RecordError if that fails; the image must not be pulled then.
        """
        store = self._begin_writing()
        with self._image_locks.of(image), store.writing():
            store.write_intent(image)
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
        store = self._writable()
        with self._image_locks.of(image), store.writing():
            if self._under_way.get(image, 0) > 1:
                self._under_way[image] -= 1
                return
            if not self.files.lock.is_pulled_elsewhere(image):
                store.delete_intent(image)
            self._under_way.pop(image, None)
            self.files.lock.release_image(image)

    def recover(self, images: Callable[[], Iterable[PresentImage]]) -> Recovery:
        """Turn the intents of processes that have ended into records, for every image that was pulled.

        These records contain no credentials, so the use of the images is verified. *images* is called only if there
        are intents.
        """
        listing = self._begin_writing().list_intents()
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
            return split_gone_records(self._store.list_records(), present, until)
        store = self._begin_writing()
        with store.writing():
            pruning = split_gone_records(self.files.list_records(), present, until)
            for record in pruning.removed:
                store.delete_record(record.image_ref)
        return pruning

    def _begin_writing(self) -> Store:
        """Return the store if a new write may begin; the end of a pull is written without this check."""
        store = self._writable()
        if self._before_writing is not None:
            self._before_writing()
        return store

    def _writable(self) -> Store:
        if self.read_only:
            raise RecordError(self.files.folder, "these records are open for reading only")
        return self._store

    def _look(self, image: str, image_ref: str) -> Situation:
        if not image_ref:
            return Situation(image=image, image_ref=image_ref)
        store = self._store
        lookup = store.find_record(image_ref)
        if lookup.exists:
            return Situation(image=image, image_ref=image_ref, lookup=lookup)
        try:
            has_intent = image in self._under_way or store.intent_exists(image)
        except RecordError as error:
            return Situation(image=image, image_ref=image_ref, lookup=lookup, problem=error)
        if not has_intent:
            # Looked up again, because a pull may have finished since: its record is written, its intent removed.
            lookup = store.find_record(image_ref)
        return Situation(image=image, image_ref=image_ref, lookup=lookup, has_intent=has_intent)

    def _add(self, image: str, image_ref: str, credentials: ImagePullCredentials | None) -> None:
        try:
            name = trim(image)
        except ImageNameError as error:
            text = f'invalid image name "{image}": {error.kubernetes_text}'
            raise RecordError("", f"cannot record the pull: {error.message}", text, Kind.CONTENT) from None
        store = self._writable()
        with store.writing():
            # Read from the file and not from the cache, because a kubelet may have written it.
            record = self.files.find_record(image_ref).record
            if record is None:
                store.write_record(new_record(image_ref, name, credentials, self._clock()))
                return
            merged, changed = merge_credentials(record, name, credentials, self._clock)
            if changed:
                store.write_record(merged)

    def _recover_one(self, image: str, image_ref: str) -> bool:
        store = self._store
        if image in self._under_way or self.files.lock.is_pulled_elsewhere(image):
            return False
        self._add(image, image_ref, None)
        with self._image_locks.of(image), store.writing():
            store.delete_intent(image)
        return True


def _shown(credentials: Shown) -> PodCredentials:
    found = credentials() if callable(credentials) else credentials
    return found if isinstance(found, PodCredentials) else pod_credentials(found)
