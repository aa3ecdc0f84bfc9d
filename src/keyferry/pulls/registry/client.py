"""A registry as one credential sees it: the manifests and blobs of one repository."""

from collections.abc import Mapping

from keyferry._core.values import Value, field, replace
from keyferry.errors import HttpError, Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.pulls.manifest import ACCEPTED, ContentError, Descriptor, digest_of, hasher
from keyferry.pulls.registry.destinations import admit_server_named, admit_user_named, find_redirect
from keyferry.pulls.registry.tokens import Authorizer, read_words
from keyferry.pulls.registry.transport import HttpResponse, Origin, Transport

__all__ = ["Fetched", "Registry"]

_MOST_MANIFEST_BYTES = 4 << 20
_MOST_REDIRECTS = 5
_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _THROTTLED = 401, 403, 404, 429
_REDIRECTS = (301, 302, 303, 307, 308)
_MEANINGS = {
    _UNAUTHORIZED: "does not accept the credential",
    _FORBIDDEN: "denies access with this credential",
    _MISSING: "has no such image, or hides it from this user",
    _THROTTLED: "has had too many requests; try again later",
}
_ANONYMOUS_MEANINGS = {
    **_MEANINGS,
    _UNAUTHORIZED: "asks for a credential",
    _FORBIDDEN: "denies access without a credential",
}


class Fetched(Value):
    """A manifest as it came: its bytes, the type it was served as, and its digest, which is verified."""

    content: bytes = field(repr=False)
    content_type: str
    digest: str


class Registry:
    """Requests to one repository; safe to use from several threads."""

    def __init__(
        self,
        transport: Transport,
        origin: Origin,
        name: str,
        repository: str,
        credential: Credential | None,
    ) -> None:
        self._transport = transport
        self._origin = origin
        self._repository = repository
        self._is_anonymous = credential is None
        self._authorizer = Authorizer(transport, name, repository, credential)
        self.name = name

    @property
    def asked_for_credential(self) -> bool:
        """Tell whether the registry wanted a credential at all."""
        return self._authorizer.was_asked

    def has_manifest(self, reference: str) -> str:
        """Ask for a manifest's head alone; gives the digest, if the registry names it, and raises RegistryError.

        What is not a success is asked again for the whole: some registries have no HEAD, and none says why.
        """
        with self._ask("HEAD", f"manifests/{reference}", {"Accept": ACCEPTED}) as answer:
            if answer.head.status == _OK:
                return answer.head.value("docker-content-digest")
        return self.get_manifest(reference).digest

    def get_manifest(self, reference: str) -> Fetched:
        """Fetch a manifest by tag or digest; raises RegistryError, also for one that is not what its digest says."""
        with self._ask("GET", f"manifests/{reference}", {"Accept": ACCEPTED}) as answer:
            if answer.head.status != _OK:
                raise self._failure(answer)
            content = self._read(answer, _MOST_MANIFEST_BYTES)
            content_type = answer.head.value("content-type")
            claimed = answer.head.value("docker-content-digest")
        wanted = [digest for digest in (reference if ":" in reference else "", claimed) if digest]
        for digest in wanted:
            self._check(content, digest)
        return Fetched(content, content_type, (wanted or [digest_of(content)])[0])

    def open_blob(self, blob: Descriptor, start: int) -> tuple[HttpResponse, int]:
        """Ask for a blob from *start* on; gives the answer, and the place from which it really goes on.

        The caller reads and closes the answer. Raises RegistryError.
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
            raise self._content_error(f"sends another part of {blob.digest} than it was asked for")
        length = answer.head.value("content-length")
        if length and length != str(blob.size - start):
            raise self._content_error(
                f"sends another number of bytes for {blob.digest} than its manifest says"
            )
        return start

    def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse:
        """Send a request, answer at most one challenge, and go where redirects lead, without the credential."""
        try:
            answer = self._authorized(method, path, headers)
            for _ in range(_MOST_REDIRECTS):
                if answer.head.status not in _REDIRECTS:
                    return self._unencoded(answer)
                answer = self._follow(answer, method, headers)
        except HttpError as error:
            raise RegistryError(self.name, 0, str(error), error.kind) from None
        with answer:
            raise RegistryError(self.name, 0, f"redirects more than {_MOST_REDIRECTS} times", Kind.UNSAFE)

    def _authorized(self, method: str, path: str, headers: Mapping[str, str]) -> HttpResponse:
        place = replace(self._origin, target=f"/v2/{self._repository}/{path}")
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
        # Once: a registry that asks again is not satisfied by anything we have.
        return self._send(place, method, headers, self._authorizer.current)

    def _send(self, place: Origin, method: str, headers: Mapping[str, str], proof: str) -> HttpResponse:
        admit = admit_user_named(self.name, place, is_insecure=self._transport.route.is_insecure)
        proved = {**headers, "Authorization": proof} if proof else headers
        return self._transport.request(place, method, proved, admit=admit)

    def _follow(self, answer: HttpResponse, method: str, headers: Mapping[str, str]) -> HttpResponse:
        is_insecure = self._transport.route.is_insecure
        answer.drain()
        place = find_redirect(self.name, answer, is_insecure=is_insecure)
        admit = admit_server_named(self.name, place, answer, is_insecure=is_insecure)
        return self._transport.request(place, method, headers, admit=admit)

    def _unencoded(self, answer: HttpResponse) -> HttpResponse:
        """An answer whose body is what it seems: nothing is unpacked here, so nothing can blow up."""
        codings = [
            coding for coding in answer.head.values("content-encoding") if coding.lower() != "identity"
        ]
        if codings and answer.head.status in (_OK, _PARTIAL):
            with answer:
                raise self._content_error("compresses its answer, although it was not asked to")
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

    def _content_error(self, message: str) -> RegistryError:
        return RegistryError(self.name, 0, message, Kind.CONTENT)

    def _failure(self, answer: HttpResponse, blob: Descriptor | None = None) -> RegistryError:
        status = answer.head.status
        said = f"status {status}{read_words(answer, self._authorizer.secrets)}"
        if (answer.origin.host, answer.origin.port) != (self._origin.host, self._origin.port):
            message = f"{answer.origin.authority}, to which it redirects, does not have it ({said})"
            return RegistryError(self.name, status, message, Kind.ERROR)
        if blob is not None and status == _MISSING:
            where = (
                "; the manifest says it is kept elsewhere, where it is not fetched from" if blob.urls else ""
            )
            return RegistryError(self.name, status, f"does not have {blob.digest} ({said}){where}")
        meanings = _ANONYMOUS_MEANINGS if self._is_anonymous else _MEANINGS
        return RegistryError(self.name, status, f"{meanings.get(status, 'failed')} ({said})")
