"""Pull records: the cost of a decision by the number of records, and of writing a record to disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from bench.measure import Row, best, median, progress, seconds_of, take_turns

from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullSecret,
    encode_record,
)
from keyferry.pulls.records.cache import CacheSizes
from keyferry.pulls.records.decision import PodCredentials
from keyferry.pulls.records.disk import Disk
from keyferry.pulls.records.hashes import file_name
from keyferry.pulls.records.load import open_records
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records

_NUMBERS = (100, 2_000, 100_000)
_ASKED = 50
_ROUNDS = 7
_WRITES = 40
_IMAGE, _NAME = "registry.example/team/app:v1", "registry.example/team/app"
_WHEN = 1_767_323_045_000_000_000


def run(folder: str) -> list[Row]:
    """Return rows for decisions at each number of records, the growth between them, and writes with their floors."""
    nodes = {number: _make_node(os.path.join(folder, f"node-{number}"), number) for number in _NUMBERS}
    rows: list[Row] = []
    for what, ask in (
        ("hit, in memory", _ask_seen),
        ("hit, from its file", _ask_unseen),
        ("miss", _ask_missing),
    ):
        results = take_turns({number: partial(ask, nodes[number], number) for number in _NUMBERS}, _ROUNDS)
        note = f"{_ASKED} images, best of {_ROUNDS} rounds"
        few, many = _NUMBERS[0], _NUMBERS[-1]
        rows += [
            Row(f"decide, {what}, {number:,} records", best(results[number]), "µs", note=note)
            for number in _NUMBERS
        ]
        grown = f"decide, {what}, growth to {many:,} records"
        rows.append(Row(grown, best(results[many]), "µs", best(results[few]), f"{few:,} records:"))
    return rows + _write_rows(folder)


def _make_node(root: str, number: int) -> Records:
    """Return a node with *number* records, as a kubelet would have written them."""
    progress(f"records: writing {number:,} files")
    folder = os.path.join(root, "image_manager", "pulled")
    os.makedirs(folder, mode=0o700)
    for at in range(number):
        fd = os.open(os.path.join(folder, file_name(_ref(at))), os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, encode_record(_record(at)))
        os.close(fd)
    # Room for the records that are asked for again, and no more: memory holds none of the others.
    policy = VerificationPolicy("AlwaysVerify")
    return open_records(
        root, policy=policy, sizes=CacheSizes(intents=_ASKED, records=_ASKED), disk=Disk(durable=False)
    )


def _ref(at: int) -> str:
    return f"sha256:{at:064x}"


def _secret(at: int) -> ImagePullSecret:
    return ImagePullSecret(
        uid=f"uid-{at}", namespace=f"namespace-{at}", name="registry", credential_hash=f"{at:064x}"
    )


def _record(at: int) -> ImagePulledRecord:
    return ImagePulledRecord(
        image_ref=_ref(at),
        last_updated_ns=_WHEN,
        credential_mapping={_NAME: ImagePullCredentials(kubernetes_secrets=(_secret(at),))},
    )


def _ask_seen(records: Records, _: int) -> list[float]:
    """Decide about the same few images repeatedly."""
    few = range(_ASKED)
    _decide_all(records, few)
    return [_decide_all(records, few) for _ in range(3)]


def _ask_unseen(records: Records, number: int) -> list[float]:
    """Decide about images that are not in memory: after this many others the first ones have been dropped."""
    later = range(number - _ASKED, number)
    _decide_all(records, range(_ASKED))
    return [_decide_all(records, later)]


def _ask_missing(records: Records, number: int) -> list[float]:
    return [_decide_all(records, range(number, number + _ASKED))]


def _decide_all(records: Records, which: range) -> float:
    shown = [(_ref(at), PodCredentials(secrets=(_secret(at),))) for at in which]

    def ask() -> None:
        for ref, credentials in shown:
            records.decide(_IMAGE, ref, credentials)

    return seconds_of(ask) / len(which) * 1e6


def _write_rows(folder: str) -> list[Row]:
    """Return rows for writes with and without fsync, each compared with the bare system calls of the same run."""
    writers: dict[str, Callable[[], float]] = {
        "durable": partial(_write, folder, "durable", Disk()),
        "as the kubelet": partial(_write, folder, "quick", Disk(durable=False)),
        "floor durable": partial(_write_bare, folder, is_durable=True),
        "floor as the kubelet": partial(_write_bare, folder, is_durable=False),
    }
    results = take_turns({name: partial(_repeat, write) for name, write in writers.items()}, _ROUNDS)
    floor = "open, write, fsync, rename, fsync:"
    return [
        Row(
            "write a record, durably",
            median(results["durable"]),
            "µs",
            median(results["floor durable"]),
            floor,
        ),
        Row(
            "write a record without fsync, as the kubelet",
            median(results["as the kubelet"]),
            "µs",
            median(results["floor as the kubelet"]),
            "open, write, rename:",
        ),
    ]


def _repeat(write: Callable[[], float]) -> list[float]:
    return [write() for _ in range(_WRITES)]


_nodes: dict[str, Records] = {}
_count = iter(range(1_000_000_000))


def _write(folder: str, name: str, disk: Disk) -> float:
    if name not in _nodes:
        _nodes[name] = open_records(os.path.join(folder, name), disk=disk)
    entry = ImagePullCredentials(kubernetes_secrets=(_secret(next(_count)),))
    ref = _ref(next(_count))
    return seconds_of(lambda: _nodes[name].record_pulled(_IMAGE, ref, entry)) * 1e6


def _write_bare(folder: str, *, is_durable: bool) -> float:
    place = os.path.join(folder, "bare")
    os.makedirs(place, exist_ok=True)
    data = encode_record(_record(1))
    path = os.path.join(place, file_name(_ref(next(_count))))
    return seconds_of(lambda: _write_file(path, data, is_durable=is_durable)) * 1e6


def _write_file(path: str, data: bytes, *, is_durable: bool) -> None:
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, data)
    if is_durable:
        os.fsync(fd)
    os.close(fd)
    os.replace(f"{path}.tmp", path)
    if is_durable:
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
