"""A client for the manifests and blobs of one repository, with one credential."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value, field, replace
from keyferry._net.client import HttpResponse
from keyferry._net.proxy import Origin
from keyferry.errors import HttpError, Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.manifest import (
    ACCEPTED,
    ContentError,
    Descriptor,
    digest_of,
    hasher,
    is_manifest_type,
    read_manifest,
)
from keyferry.pulls.registry.tokens import Authorizer, read_words
from keyferry.pulls.registry.transport import (
    Transport,
    admit_server_named,
    admit_user_named,
    find_origin,
    find_redirect,
)

_MAX_MANIFEST_BYTES = 4 << 20
_MAX_REDIRECTS = 5
_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _THROTTLED = 401, 403, 404, 429
_REDIRECTS = (301, 302, 303, 307, 308)
_MEANINGS = {
    _UNAUTHORIZED: "does not accept the credential",
    _FORBIDDEN: "denies access with this credential",
    _MISSING: "has no such image, or hides it from this user",
    _THROTTLED: "received too many requests; try again later",
}
_ANONYMOUS_MEANINGS = {
    **_MEANINGS,
    _UNAUTHORIZED: "asks for a credential",
    _FORBIDDEN: "denies access without a credential",
}


class Fetched(Value):
    """A manifest as it was received: its bytes, its content type, and its verified digest."""

    content: bytes = field(repr=False)
    content_type: str
    digest: str


class Registry:
    """A client of one repository; safe to use from several threads."""

    def __init__(
        self,
        transport: Transport,
        origin: Origin,
        name: str,
        repository: str,
        credential: Credential | None,
        *,
        api: str = "/v2",
        query: str = "",
    ) -> None:
        self._transport = transport
        self._origin = origin
        self._api = f"{api.rstrip('/')}/{repository}"
        self._query = query
        self._is_anonymous = credential is None
        self._authorizer = Authorizer(transport, name, repository, credential)
        self.name = name

    @property
    def asked_for_credential(self) -> bool:
        """Whether the registry has asked for a credential."""
        return self._authorizer.was_asked

    @property
    def asked_elsewhere(self) -> bool:
        """Whether a token server on another host was asked."""
        return self._authorizer.asked_elsewhere

    def has_manifest(self, reference: str) -> str:
        """Request a manifest with HEAD, and return its digest, empty if the registry does not report it.

        If HEAD does not succeed, or its response has not the type of a manifest, GET is used: some registries do not
        support HEAD, and its response has no error message and no content to judge. It is not used if the registry
        asks for a pause. Raise RegistryError if the manifest is not available, or if what is sent in its place is none.
        """
        with self._ask("HEAD", f"manifests/{reference}", {"Accept": ACCEPTED}) as answer:
            if answer.head.status == _THROTTLED or answer.head.value("retry-after"):
                raise self._failure(answer)
            if answer.head.status == _OK and is_manifest_type(answer.head.value("content-type")):
                return answer.head.value("docker-content-digest")
        fetched = self.get_manifest(reference)
        if not is_manifest_type(fetched.content_type):
            self._check_manifest(fetched)
        return fetched.digest

    def get_manifest(self, reference: str) -> Fetched:
        """Fetch a manifest by tag or digest; raise RegistryError if that fails or the digest does not match."""
        with self._ask("GET", f"manifests/{reference}", {"Accept": ACCEPTED}) as answer:
            if answer.head.status != _OK:
                raise self._failure(answer)
            content = self._read(answer, _MAX_MANIFEST_BYTES)
            content_type = answer.head.value("content-type")
            claimed = answer.head.value("docker-content-digest")
        wanted = [digest for digest in (reference if ":" in reference else "", claimed) if digest]
        for digest in wanted:
            self._check(content, digest)
        return Fetched(content=content, content_type=content_type, digest=(wanted or [digest_of(content)])[0])

    def open_blob(self, blob: Descriptor, start: int) -> tuple[HttpResponse, int]:
        """Request a blob from the offset *start*, and return the response and the offset at which it really begins.

        The caller reads and closes the response. Raise RegistryError if the request fails.
        """
        headers = {"Range": f"bytes={start}-"} if start else {}
        answer = self._ask("GET", f"blobs/{blob.digest}", headers)
        if start and answer.head.status == _UNSATISFIABLE:
            answer.drain()
            return self.open_blob(blob, 0)
        try:
            return answer, self._check_blob(answer, blob, start)
        except BaseException:
            answer.close()
            raise

    def _check_blob(self, answer: HttpResponse, blob: Descriptor, start: int) -> int:
        if answer.head.status not in (_OK, _PARTIAL):
            raise self._failure(answer, blob)
        if answer.head.status == _OK:
            start = 0
        elif answer.head.value("content-range").strip() != f"bytes {start}-{blob.size - 1}/{blob.size}":
            raise self._content_error(f"sends another range of {blob.digest} than was requested")
        length = answer.head.value("content-length")
        if length and length != str(blob.size - start):
            raise self._content_error(
                f"sends another number of bytes for {blob.digest} than the manifest states"
            )
        return start

    def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse:
        """Send a request, answer at most one challenge, and follow redirects without the credential."""
        try:
            answer = self._authorized(method, path, headers)
            for _ in range(_MAX_REDIRECTS):
                if answer.head.status not in _REDIRECTS:
                    return self._unencoded(answer)
                answer = self._follow(answer, method, headers)
        except HttpError as error:
            raise RegistryError(self.name, 0, str(error), error.kind) from None
        with answer:
            raise RegistryError(self.name, 0, f"redirects more than {_MAX_REDIRECTS} times", Kind.UNSAFE)

    def _authorized(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse:
        place = replace(self._origin, target=f"{self._api}/{path}{self._query}")
        sent = self._authorizer.current
        answer = self._send(place, method, headers, sent)
        if answer.head.status != _UNAUTHORIZED:
            return answer
        try:
            is_renewed = self._authorizer.renew(answer, sent)
        except BaseException:
            answer.close()
            raise
        if not is_renewed:
            return answer
        answer.drain()
        # Only once: a registry that sends another challenge does not accept the credential.
        return self._send(place, method, headers, self._authorizer.current)

    def _send(self, place: Origin, method: str, headers: Mapping[str, str], proof: str) -> HttpResponse:
        admit = admit_user_named(self.name, place, is_insecure=self._transport.allows_plain(place))
        proved = {**headers, "Authorization": proof} if proof else headers
        return self._transport.request(place, method, proved, admit=admit)

    def _follow(self, answer: HttpResponse, method: str, headers: Mapping[str, str]) -> HttpResponse:
        answer.drain()
        place = find_redirect(self.name, answer, allows_plain=self._transport.allows_plain)
        is_insecure = self._transport.allows_plain(place)
        admit = admit_server_named(self.name, place, answer, is_insecure=is_insecure)
        return self._transport.request(place, method, headers, admit=admit)

    def _unencoded(self, answer: HttpResponse) -> HttpResponse:
        """Return *answer*, or raise RegistryError if its body is compressed.

        Nothing is decompressed, so that a small response cannot expand to a huge one.
        """
        codings = [
            coding for coding in answer.head.values("content-encoding") if coding.lower() != "identity"
        ]
        if codings and answer.head.status in (_OK, _PARTIAL):
            with answer:
                raise self._content_error("compresses its response, which was not requested")
        return answer

    def _read(self, answer: HttpResponse, most_bytes: int) -> bytes:
        try:
            return answer.read(most_bytes)
        except HttpError as error:
            kind = Kind.TIMEOUT if error.is_timeout else Kind.CONTENT
            raise RegistryError(self.name, 0, str(error), kind) from None

    def _check(self, content: bytes, digest: str) -> None:
        try:
            hasher(digest)
        except ContentError as error:
            raise self._content_error(f"its manifest: {error}") from None
        if digest_of(content, digest) != digest:
            raise self._content_error(f"the manifest it sent is not the one with digest {digest}")

    def _check_manifest(self, fetched: Fetched) -> None:
        try:
            read_manifest(fetched.content, fetched.content_type, fetched.digest)
        except ContentError as error:
            raise self._content_error(f"sends something else than an image manifest: {error}") from None

    def _content_error(self, message: str) -> RegistryError:
        return RegistryError(self.name, 0, message, Kind.CONTENT)

    def _failure(self, answer: HttpResponse, blob: Descriptor | None = None) -> RegistryError:
        status = answer.head.status
        said = f"status {status}{read_words(answer, self._authorizer.secrets)}"
        if (answer.origin.host, answer.origin.port) != (self._origin.host, self._origin.port):
            message = f"{answer.origin.authority}, to which it redirects, does not have it ({said})"
            return RegistryError(self.name, status, message, Kind.ERROR)
        if blob is not None and status == _MISSING:
            where = "; the manifest gives other URLs for it, which are not used" if blob.urls else ""
            return RegistryError(self.name, status, f"does not have {blob.digest} ({said}){where}")
        meanings = _ANONYMOUS_MEANINGS if self._is_anonymous else _MEANINGS
        return RegistryError(self.name, status, f"{meanings.get(status, 'failed')} ({said})")


class RegistryAccess:
    """A registry by its name; its address is found once and kept for the next image and credential."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._name = name
        self._origin: Origin | None = None

    def open_repository(self, image: ImageName, credential: Credential | None) -> Registry:
        """Return a client of the image's repository for one credential; raise RegistryError if it cannot be reached."""
        if self._origin is None:
            try:
                self._origin = find_origin(self._transport, self._name)
            except HttpError as error:
                raise RegistryError(self._name, 0, str(error), error.kind) from None
        return Registry(self._transport, self._origin, self._name, image.path, credential)
