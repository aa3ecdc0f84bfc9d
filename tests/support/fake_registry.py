"""A registry that can misbehave: it serves one image correctly, except for the responses that a test replaces."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keyferry.images.keyring import Credential, Source, SourceKind
from support.fake_cloud import FakeServer, Received, Reply
from support.images import BuiltImage, digest_of

REPOSITORY, TAG = "team/app", "v1"
USER, PASSWORD = "alice", "kf-marked-password"
TOKEN = "kf-marked-token"
PAIR = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

Answering = Callable[[Received], Reply]


def credential(user: str = USER, password: str = PASSWORD, provider: str = "one") -> Credential:
    """Return a credential as a provider returns it."""
    return Credential(
        username=user,
        password=password,
        source=Source(kind=SourceKind.PROVIDER, name=provider),
        key="registry.example",
    )


@dataclass
class FakeRegistry:
    """A registry of one image. *challenge* is sent to clients without a proof; *instead* replaces responses by path.

    It accepts the user's password and one token as proof.
    """

    image: BuiltImage
    challenge: str = ""
    instead: Mapping[str, Answering] = field(default_factory=dict)

    def __call__(self, request: Received) -> Reply:
        """Answer one request."""
        if request.path in self.instead:
            return self.instead[request.path](request)
        if request.path == "/v2/":
            return Reply(document={})
        if self.challenge and not is_proved(request):
            return unauthorized(self.challenge)
        return self.serve(request)

    def serve(self, request: Received) -> Reply:
        """Answer a request that needs no proof, or has one."""
        assert request.method in ("GET", "HEAD"), request.method
        kind, _, name = request.path.removeprefix(f"/v2/{REPOSITORY}/").partition("/")
        if kind == "manifests" and name in (TAG, self.image.digest):
            return manifest_reply(self.image)
        for below in self.image.below:
            if kind == "manifests" and name == below.digest:
                return manifest_reply(below)
        blobs = {**self.image.blobs, **{d: b for below in self.image.below for d, b in below.blobs.items()}}
        if kind == "blobs" and name in blobs:
            return blob_reply(blobs[name], request)
        return Reply(404, {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]})


def is_proved(request: Received) -> bool:
    """Return whether a request has a valid proof."""
    return request.headers.get("authorization") in (f"Basic {PAIR}", f"Bearer {TOKEN}")


def unauthorized(challenge: str) -> Reply:
    """Return the response to a request without a proof."""
    errors = [{"code": "UNAUTHORIZED", "message": "authentication required", "detail": None}]
    return Reply(401, {"errors": errors}, headers={"WWW-Authenticate": challenge})


def manifest_reply(image: BuiltImage, **headers: str) -> Reply:
    """Return a manifest as registries serve it."""
    usual = {"Content-Type": image.media_type, "Docker-Content-Digest": image.digest}
    return Reply(body=image.manifest, headers={**usual, **headers})


def blob_reply(blob: bytes, request: Received) -> Reply:
    """Return a blob, or the requested part of it."""
    asked = request.headers.get("range", "")
    if not asked:
        return Reply(body=blob)
    start = int(asked.removeprefix("bytes=").removesuffix("-"))
    return Reply(
        206, body=blob[start:], headers={"Content-Range": f"bytes {start}-{len(blob) - 1}/{len(blob)}"}
    )


def token_reply(request: Received) -> Reply:
    """Return a token for the user's password, and a refusal for any other."""
    if request.headers.get("authorization") != f"Basic {PAIR}":
        return Reply(401, {"errors": [{"code": "UNAUTHORIZED", "message": "bad credentials"}]})
    assert request.query["scope"] == f"repository:{REPOSITORY}:pull"
    return Reply(document={"token": TOKEN, "expires_in": 300})


def manifest_path(reference: str = TAG) -> str:
    """Return the path of a manifest."""
    return f"/v2/{REPOSITORY}/manifests/{reference}"


def blob_path(blob: bytes) -> str:
    """Return the path of a blob."""
    return f"/v2/{REPOSITORY}/blobs/{digest_of(blob)}"


def image_of(server: FakeServer) -> str:
    """Return the name of the image in a registry."""
    return f"127.0.0.1:{server.port}/{REPOSITORY}:{TAG}"
