"""Check whether credentials can pull an image, without downloading it: with its registry, or where a runtime asks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from keyferry._core.clock import check_timeout
from keyferry._core.values import replace
from keyferry._net.deadline import Deadline
from keyferry._net.forms import encode_query
from keyferry._net.http_errors import split_url
from keyferry._net.proxy import Origin
from keyferry.errors import HttpError, Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.files import TrustProblem
from keyferry.pulls.registry.client import Registry, RegistryAccess
from keyferry.pulls.registry.transport import Meter, RegistryRoute, Transport
from keyferry.pulls.trial import Attempt, AttemptResult, EndpointAnswer, Trial, without_frames

_NOT_FOUND = 404
_NO_RESPONSE = (Kind.UNREACHABLE, Kind.TIMEOUT)
# With these answers another credential could have led to another one.
_REFUSAL_KINDS = (Kind.REFUSED, Kind.NOT_FOUND)


def check_registry(
    image: str | ImageName,
    credentials: Sequence[Credential] = (),
    *,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """Request *image* from its registry with each credential in order, or anonymously if there are none.

    The manifest is requested with HEAD if the registry supports that. Failures are part of the attempts. Raise
    ImageNameError, EnvironmentProblem if the CA file cannot be read, and ValueError if *timeout_seconds* is not valid.
    """
    return _ask_registry(parse_image(image), credentials, route, timeout_seconds, None)


def _ask_registry(
    image: ImageName,
    credentials: Sequence[Credential],
    route: RegistryRoute,
    timeout_seconds: float,
    meter: Meter | None,
) -> tuple[Attempt, ...]:
    check_timeout(timeout_seconds)
    with closing(Transport(route, Deadline(timeout_seconds), meter=meter)) as transport:
        return trial_of(RegistryAccess(transport, image.registry), image).run_all(credentials)


def trial_of(access: RegistryAccess, image: ImageName) -> Trial:
    """Return a trial whose attempts request the manifest of *image* and download nothing."""

    def ask(credential: Credential | None) -> AttemptResult:
        registry = access.open_repository(image, credential)
        digest = registry.has_manifest(image.reference)
        return AttemptResult(was_asked=registry.asked_for_credential, digest=digest)

    return Trial(ask)


async def check_registry_async(
    image: str | ImageName,
    credentials: Sequence[Credential] = (),
    *,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float = 60.0,
) -> tuple[Attempt, ...]:
    """Do the same as ``check_registry``, without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(
        check_registry, image, credentials, route=route, timeout_seconds=timeout_seconds
    )


def check_endpoints(
    image: str | ImageName,
    credentials: Sequence[Credential],
    mirrors: Mirrors | None,
    *,
    route: RegistryRoute = RegistryRoute(),
    timeout_seconds: float = 60.0,
    meter: Meter | None = None,
) -> tuple[Attempt, ...]:
    """Do the same as ``check_registry``, where and how the container runtime asks for *image* by its files.

    After any failure the next endpoint is asked: containerd's resolver does so since 1.5 (it logs "trying next host"),
    and containers/image too. Without *mirrors*, only the registry is asked. *meter* sees every request.
    """
    if mirrors is None or not mirrors.endpoints:
        return _ask_registry(parse_image(image), credentials, route, timeout_seconds, meter)
    check_timeout(timeout_seconds)
    name, deadline = parse_image(image), Deadline(timeout_seconds)
    tried = tuple(credentials) or (None,)
    with ExitStack() as stack:
        places = []
        for endpoint in mirrors.endpoints:
            try:
                transport = Transport(route, deadline, endpoint=endpoint, meter=meter)
            except TrustProblem as problem:
                # The runtime asks nobody then, whichever host the file is for.
                error = RegistryError(endpoint.host, 0, f"was not asked: {problem}", Kind.ERROR)
                doubt = f"{mirrors.runtime} cannot connect to {endpoint.host}, by {mirrors.file}: {problem}"
                answer = EndpointAnswer(
                    url=endpoint.url, is_registry=endpoint.is_registry, error=error, doubt=doubt
                )
                return tuple(Attempt(credential=each, error=error, answers=(answer,)) for each in tried)
            places.append(_Place(endpoint, stack.enter_context(closing(transport)), mirrors.runtime))
        asked = [place for place in places if place.endpoint.resolves]
        return tuple(_attempt(asked, name, each, mirrors.runtime) for each in tried)


def _attempt(
    places: Sequence[_Place], image: ImageName, credential: Credential | None, runtime: RuntimeKind
) -> Attempt:
    answers: list[EndpointAnswer] = []
    for place in places:
        digest, was_asked, answer = place.ask(image, credential)
        answers.append(answer)
        if answer.error is None:
            return Attempt(
                credential=credential, error=None, digest=digest, was_asked=was_asked, answers=tuple(answers)
            )
    errors = [answer.error for answer in answers if answer.error is not None]
    return Attempt(credential=credential, error=_told(errors, image, runtime), answers=tuple(answers))


def _told(errors: Sequence[RegistryError], image: ImageName, runtime: RuntimeKind) -> RegistryError:
    """Return the error that the runtime reports: CRI-O the last, containerd the first that got furthest."""
    if not errors:
        message = f"is not asked: by its file, {runtime} asks no host for the manifest of a tag"
        return RegistryError(image.registry, 0, message, Kind.NOT_FOUND)
    if runtime is RuntimeKind.CRIO:
        return errors[-1]
    return max(errors, key=lambda error: (error.status not in (0, _NOT_FOUND), error.status == _NOT_FOUND))


class _Place:
    """One endpoint during a check; it is not asked again once it could not be reached."""

    def __init__(self, endpoint: Endpoint, transport: Transport, runtime: RuntimeKind) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._runtime = runtime
        self._origin: Origin | None = None
        self._lost: RegistryError | None = None

    def ask(self, image: ImageName, credential: Credential | None) -> tuple[str, bool, EndpointAnswer]:
        """Return the image's digest, whether the credential was asked for, and the answer."""
        endpoint = self.endpoint
        answer = EndpointAnswer(url=endpoint.url, is_registry=endpoint.is_registry)
        if not endpoint.repository:
            error = RegistryError(
                endpoint.host, 0, "was not asked: its file rewrites the repository", Kind.ERROR
            )
            doubt = f"{self._runtime} asks {endpoint.url} for a repository that is not known here (rewrite)"
            return "", False, replace(answer, error=error, doubt=doubt)
        offered = credential if endpoint.offer is CredentialOffer.OFFERED else None
        registry = None
        try:
            registry = self._registry(offered)
            digest = registry.has_manifest(image.reference)
        except RegistryError as found:
            error = without_frames(found)
        else:
            return digest, registry.asked_for_credential and offered is credential, answer
        if error.kind in _NO_RESPONSE:
            self._lost = error
        asked_elsewhere = registry is not None and registry.asked_elsewhere
        doubt = self._doubt(error, credential, asked_elsewhere=asked_elsewhere)
        return "", False, replace(answer, error=error, doubt=doubt)

    def _registry(self, credential: Credential | None) -> Registry:
        endpoint = self.endpoint
        if self._lost is not None:
            raise self._lost
        try:
            if self._origin is None:
                self._origin = self._find_origin()
            base = split_url(endpoint.api).target
        except HttpError as error:
            raise RegistryError(endpoint.host, 0, str(error), error.kind) from None
        query = f"?{encode_query({'ns': endpoint.namespace})}" if endpoint.namespace else ""
        return Registry(
            self._transport,
            self._origin,
            endpoint.host,
            endpoint.repository,
            credential,
            api=base,
            query=query,
        )

    def _find_origin(self) -> Origin:
        first, *others = self._transport.own
        return others[0] if others and not self._transport.speaks_tls(first) else first

    def _doubt(self, error: RegistryError, credential: Credential | None, *, asked_elsewhere: bool) -> str:
        """Return why the runtime may get another answer than *error*; empty if it does not."""
        endpoint, runtime = self.endpoint, self._runtime
        if error.kind not in _REFUSAL_KINDS:
            return ""
        if endpoint.offer is CredentialOffer.WITHHELD:
            return f"{runtime} may have a login of its own for {endpoint.host}, in its auth file, which was not tried"
        if endpoint.offer is CredentialOffer.UNKNOWN:
            return f"it is not known which credential {runtime} offers to {endpoint.host}"
        if endpoint.has_login and not endpoint.trust.has_login and credential is None:
            return f"{runtime} has a login of its own for {endpoint.host}, which was not tried"
        if endpoint.trust.headers and asked_elsewhere:
            return f"{runtime} sends the headers for {endpoint.host} to its token server too, which was not tried"
        return ""
