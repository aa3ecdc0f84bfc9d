"""Pull secrets, the content of a records folder, and a pull target with settable behaviour."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyferry.errors import ContainerRuntimeError, KeyferryError, Kind
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.manifest import StoredImage
from keyferry.pulls.request import PullOptions
from keyferry.pulls.trial import AttemptResult

NAMESPACE = "team"
_CONFIG_JSON = "kubernetes.io/dockerconfigjson"


def pull_secret(name: str, host: str, user: str, password: str) -> PullSecret:
    """Return a pull secret with one login."""
    data = {".dockerconfigjson": json.dumps(_auths(host, user, password)).encode()}
    return PullSecret(namespace=NAMESPACE, name=name, type=_CONFIG_JSON, data=data, uid=f"uid-of-{name}")


def write_secret(folder: Path, name: str, host: str, user: str, password: str) -> str:
    """Write the same into a file, in kubectl's format; return its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _CONFIG_JSON,
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"},
        "stringData": {".dockerconfigjson": json.dumps(_auths(host, user, password))},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return str(path)


def _auths(host: str, user: str, password: str) -> Mapping[str, object]:
    return {"auths": {host: {"username": user, "password": password}}}


def intents_in(root: Path) -> list[str]:
    """Return the images with an intent."""
    folder = root / "image_manager" / "pulling"
    files = sorted(folder.glob("sha256-*")) if folder.exists() else []
    return [json.loads(each.read_text())["image"] for each in files if not each.name.endswith(".tmp")]


def records_in(root: Path) -> dict[str, dict[str, Any]]:
    """Return the recorded credentials by image reference and name."""
    folder = root / "image_manager" / "pulled"
    documents = [json.loads(each.read_text()) for each in folder.glob("sha256-*")] if folder.exists() else []
    return {each["imageRef"]: each.get("credentialMapping", {}) for each in documents}


@contextmanager
def silent_server() -> Iterator[int]:
    """Start a server that accepts connections and never answers; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@dataclass
class FakeTarget:
    """A pull target that accepts the given logins, checks its use, and records it; *errors* are by password."""

    logins: set[tuple[str, str]] = field(default_factory=set)
    images: dict[str, StoredImage] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    error: KeyferryError | BaseException | None = None
    errors: dict[str, KeyferryError] = field(default_factory=dict)
    before: Callable[[str], None] = lambda _: None
    most_at_once: int = 0
    at_once: int = 0
    place: str = "a fake"
    runtime_socket: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find_image(self, image: str) -> StoredImage | None:
        """Find an image by name or id."""
        assert ":" in image, "a name without a tag"
        by_id = {each.id: each for each in self.images.values()}
        return self.images.get(image) or by_id.get(image)

    def list_images(self) -> Iterable[StoredImage]:
        """Return all images."""
        return self.images.values()

    def pull_image(
        self,
        image: ImageName,
        credential: Credential | None,
        options: PullOptions,
    ) -> AttemptResult:
        """Pull the image if the credential is accepted."""
        assert ":" in image.text, "a name without a tag"
        assert options.timeout_seconds is None or options.timeout_seconds > 0
        assert options.on_progress is None or callable(options.on_progress)
        with self.lock:
            self.asked.append((image.text, "" if credential is None else credential.password))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.before(image.text)
            return self._answer(image.text, credential)
        finally:
            with self.lock:
                self.at_once -= 1

    def _answer(self, image: str, credential: Credential | None) -> AttemptResult:
        error = self.errors.get("" if credential is None else credential.password, self.error)
        if error is not None:
            raise error
        login = ("", "") if credential is None else (credential.username, credential.password)
        if login not in self.logins:
            raise refusal()
        return AttemptResult(image_ref=self.put(image).id)

    def put(self, image: str) -> StoredImage:
        """Add an image, as if another program had pulled it."""
        name = image.rpartition("/")[2].replace(":", "-")
        self.images[image] = StoredImage(
            id=f"sha256:{name}",
            tags=(image,),
            digests=(f"{image.rpartition(':')[0]}@sha256:d-{name}",),
            size=7,
        )
        return self.images[image]

    def close(self) -> None:
        """Do nothing: no pull is in progress."""


def refusal(message: str = "401 Unauthorized") -> ContainerRuntimeError:
    """Return a runtime's error for a wrong credential."""
    return ContainerRuntimeError("/run/fake.sock", "UNKNOWN", message, Kind.REFUSED)
