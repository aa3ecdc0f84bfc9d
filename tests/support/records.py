"""Pull records for tests: real files, disks that fail at a chosen step, and processes that are killed there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from keyferry._core.files import Folder
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullIntent,
    ImagePullSecret,
    ImagePullServiceAccount,
    encode_intent,
    encode_record,
)
from keyferry.api.meta import parse_time
from keyferry.images.keyring import credential_hash
from keyferry.pulls.records.disk import Disk
from keyferry.pulls.records.format import file_name
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records, open_records

TESTS = Path(__file__).resolve().parent.parent
IMAGE, NAME, REF = "reg.example/team/app:v1", "reg.example/team/app", "sha256:" + "a" * 64
HASH = "5e" * 32
WHEN = parse_time("2026-01-02T03:04:05Z")


class Present(Value):
    """An image in the runtime."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def secret(name: str = "s1", credential_hash: str = HASH, uid: str = "") -> ImagePullSecret:
    """Return a pull secret of the namespace ns."""
    return ImagePullSecret(
        uid=uid or f"uid-{name}", namespace="ns", name=name, credential_hash=credential_hash
    )


def account(name: str = "a1") -> ImagePullServiceAccount:
    """Return a service account of the namespace ns."""
    return ImagePullServiceAccount(uid=f"uid-{name}", namespace="ns", name=name)


def with_secrets(*secrets: ImagePullSecret) -> ImagePullCredentials:
    """Return credentials of these secrets only."""
    return ImagePullCredentials(kubernetes_secrets=secrets)


def with_login(user: str, password: str, *, uid: str) -> ImagePullCredentials:
    """Return the credentials of the pull secret shop/regcred, with this login."""
    hashed = credential_hash(user, password)
    return with_secrets(ImagePullSecret(uid=uid, namespace="shop", name="regcred", credential_hash=hashed))


EVERYBODY = ImagePullCredentials(node_pods_accessible=True)


def record(ref: str = REF, name: str = NAME, entry: ImagePullCredentials = EVERYBODY) -> ImagePulledRecord:
    """Return a record of one name."""
    return ImagePulledRecord(image_ref=ref, last_updated_ns=WHEN, credential_mapping={name: entry})


def folder_of(root: Path, which: str = "pulled") -> Path:
    """Return one of the two folders, made as a kubelet makes it."""
    folder = root / "image_manager" / which
    for each in (folder.parent, folder):
        each.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def plant(root: Path, content: bytes | None = None, *, ref: str = REF, mode: int = 0o600) -> Path:
    """Write a file in the place of a reference's record; by default a record that allows every pod."""
    path = folder_of(root) / file_name(ref)
    path.write_bytes(encode_record(record(ref)) if content is None else content)
    path.chmod(mode)
    return path


def plant_intent(root: Path) -> Path:
    """Write the intent of a pull of the image."""
    path = folder_of(root, "pulling") / file_name(IMAGE)
    path.write_bytes(encode_intent(ImagePullIntent(image=IMAGE)))
    path.chmod(0o600)
    return path


def open_quickly(root: Path, policy: str = "AlwaysVerify", *, cached: bool = True) -> Records:
    """Return records that do not wait for the disk."""
    return open_records(str(root), policy=VerificationPolicy(policy), cached=cached, disk=Disk(durable=False))


class CountingFolder(Folder):
    """A folder that counts its steps, and calls a function before each one."""

    def __init__(self, folder: Folder, fd: int | None, path: str, count: Callable[[str], None]) -> None:
        super().__init__(path, fd, folder.owners, durable=folder.durable)
        self._count = count

    def like(self, path: str, fd: int | None) -> Folder:
        """Return a counting folder for a folder below it."""
        return CountingFolder(self, fd, path, self._count)

    def create(self, name: str, mode: int) -> int:
        """Count, then create the file."""
        self._count("create")
        return super().create(name, mode)

    def write(self, fd: int, data: bytes) -> None:
        """Write in two halves, counted separately."""
        self._count("write")
        half = len(data) // 2
        super().write(fd, data[:half])
        self._count("write the rest")
        super().write(fd, data[half:])

    def sync_file(self, fd: int) -> None:
        """Count, then sync the file."""
        self._count("sync")
        super().sync_file(fd)

    def rename(self, name: str, target: str, folder: Folder | None = None) -> None:
        """Count, then rename the file."""
        self._count("rename")
        super().rename(name, target, folder)

    def unlink(self, name: str) -> None:
        """Count, then remove the file."""
        self._count("unlink")
        super().unlink(name)

    def sync(self) -> None:
        """Count, then sync the folder."""
        self._count("sync_folder")
        super().sync()


class CountingDisk(Disk):
    """A disk that counts its steps, and calls a function before each one."""

    def __init__(self, before: Callable[[int, str], None] = lambda _number, _step: None) -> None:
        super().__init__()
        self.steps: list[str] = []
        self._before = before

    def _count(self, step: str) -> None:
        self.steps.append(step)
        self._before(len(self.steps), step)

    def open_root(self, root: str, *, make: int | None = None) -> Folder:
        """Return a counting folder for the root."""
        folder = super().open_root(root, make=make)
        return CountingFolder(folder, folder.place("")[1], folder.path, self._count)

    def make_folder(self, root: str, *names: str) -> Folder:
        """Count, then create the folder."""
        self._count("make_folder")
        return super().make_folder(root, *names)

    def read(self, folder: Folder, name: str) -> bytes | None:
        """Count without a call: reading changes nothing."""
        self.steps.append("read")
        return super().read(folder, name)


def die(*_: object) -> None:
    """End this process as in a crash."""
    os.kill(os.getpid(), signal.SIGKILL)


def pull_and_die(root: str, at: int) -> None:
    """Pull an image with a secret, and be killed before step *at*; the runtime gets the image half-way."""
    disk = CountingDisk(lambda number, _: die() if number == at else None)
    records = open_records(root, disk=disk)
    records.record_intent(IMAGE)
    Path(root, "runtime-has-it").touch()
    records.record_pulled(IMAGE, REF, with_secrets(secret()))


def run_python(code: str, *words: str) -> subprocess.Popen[bytes]:
    """Start Python with the support modules of the tests on its path."""
    setup = f"import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r}\n"
    return subprocess.Popen(
        [sys.executable, "-c", setup + code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(processes: Iterable[subprocess.Popen[bytes]]) -> list[tuple[int, str]]:
    """Wait for processes to end; return their exit statuses and standard errors."""
    results = []
    for process in processes:
        _, errors = process.communicate(timeout=120)
        results.append((process.returncode, errors.decode()))
    return results
