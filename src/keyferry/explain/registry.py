"""What the registry and its mirrors say to each credential, as text for people and as a document for programs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from keyferry._core.host_root import is_on_host
from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.secrets import printable, redact
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry.errors import ContainerRuntimeError, EnvironmentProblem, Kind, RegistryError
from keyferry.explain.document import source_document
from keyferry.explain.explanation import MirrorTrap, PullVerdict
from keyferry.images.answer import Answer, MissingInput
from keyferry.images.keyring import Credential
from keyferry.images.match import explain_match
from keyferry.images.node.discover import Discovery, usual_root
from keyferry.images.node.settings import Node
from keyferry.images.reference import normalise, registry_of
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors
from keyferry.pulls.trial import Attempt, EndpointAnswer, most_telling
from keyferry.show.text import Mark, mark
from keyferry.workloads.request import RegistryOptions, Wait, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.explain.node_half import NodeHalf
    from keyferry.workloads.inputs import Inputs


class RegistryCheck(Value):
    """A registry's response to each credential, and the other facts that decide whether the image can be pulled.

    *missing* are inputs that were not given and may hold another credential. *mirrors* tell where and how the container
    runtime asks, and the attempts were made so. Where the runtime may not read that file, *without_file* are the
    attempts without it. With a *half*, the node made the attempts after the first *own_attempts*; *is_untold* says that
    it did not tell of all that its kubelet would make.
    """

    image: str
    attempts: tuple[Attempt, ...]
    missing: tuple[MissingInput, ...] = ()
    mirrors: Mirrors | None = None
    without_file: tuple[Attempt, ...] = ()
    half: NodeHalf | None = None
    own_attempts: int = 0
    is_untold: bool = False

    @property
    def verdict(self) -> PullVerdict:
        """Whether the image can be pulled; NO only if every place refused it and no missing input can help.

        An image that the container runtime blocks cannot be pulled, whatever the registry says.
        """
        if self.is_blocked:
            return PullVerdict.NO
        return PullVerdict.UNKNOWN if self.depends_on_file else self._judge(self.attempts)

    @property
    def text(self) -> str:
        """The verdict in one line."""
        is_told = self.half is not None and len(self.attempts) > self.own_attempts
        return f"{verdict(self)} (from node {self.half.node!r})" if self.half and is_told else verdict(self)

    def _judge(self, attempts: tuple[Attempt, ...]) -> PullVerdict:
        if any(attempt.worked for attempt in attempts):
            return PullVerdict.UNKNOWN if self.is_perhaps_not_anonymous else PullVerdict.YES
        is_unread = self.mirrors is not None and bool(self.mirrors.problem)
        if is_unread or self.is_untold or not attempts or not all(map(_is_sure, attempts)):
            return PullVerdict.UNKNOWN
        # This includes an image that is not found: registries hide images from users without access.
        return PullVerdict.UNKNOWN if self.missing else PullVerdict.NO

    @property
    def is_blocked(self) -> bool:
        """Whether the container runtime refuses to pull the image."""
        return self.mirrors is not None and self.mirrors.is_blocked

    @property
    def depends_on_file(self) -> bool:
        """Whether the answer is another if the container runtime does not read its file, which is not known."""
        return bool(self.without_file) and self._judge(self.without_file) is not self._judge(self.attempts)

    @property
    def is_perhaps_not_anonymous(self) -> bool:
        """Whether only anonymous attempts were made, and a missing input may hold a credential.

        A kubelet that has a credential makes no anonymous attempt, and a wrong one is refused for a public image too.
        """
        is_anonymous = bool(self.attempts) and all(each.credential is None for each in self.attempts)
        return bool(self.missing) and is_anonymous

    @property
    def provenance(self) -> tuple[str, ...]:
        """Who made each attempt: ``here``, or the ``node``."""
        there = 0 if self.half is None else len(self.attempts) - self.own_attempts
        return ("here",) * (len(self.attempts) - there) + ("node",) * there

    @property
    def other_way(self) -> str:
        """Why the container runtime may get another answer than the attempts, as text; empty if it does not."""
        if self.mirrors is None or self.is_blocked:
            return ""
        if self.mirrors.problem:
            return str(self.mirrors)
        if self.depends_on_file:
            return f"it depends on whether {self.mirrors.runtime} reads {self.mirrors.file}: {self.mirrors.doubt}"
        if any(attempt.worked for attempt in self.attempts):
            return ""
        said = (answer.doubt for attempt in self.attempts for answer in attempt.answers if answer.doubt)
        return "; ".join(dict.fromkeys(said))

    @property
    def error(self) -> RegistryError | ContainerRuntimeError | None:
        """The most informative error, if no attempt worked."""
        return None if self._failed is None else self._failed.error

    @property
    def kind(self) -> Kind | None:
        """The kind of that error, as in RegistryError."""
        return None if self._failed is None else self._failed.kind

    @property
    def _failed(self) -> Attempt | None:
        if not self.attempts or any(attempt.worked for attempt in self.attempts):
            return None
        return most_telling(self.attempts)


# Only these errors are about the image; after any other error it is unknown whether it can be pulled.
_SURE = (Kind.REFUSED, Kind.NOT_FOUND)

_NO_RESPONSE = (Kind.UNREACHABLE, Kind.TIMEOUT)


def _is_sure(attempt: Attempt) -> bool:
    """Return whether a failed attempt says that the image cannot be pulled so: at none of the places."""
    if not attempt.answers:
        return attempt.kind in _SURE
    return all(
        each.error is not None and each.error.kind in _SURE and not each.doubt for each in attempt.answers
    )


def check_image(
    image: str,
    credentials: Sequence[Credential],
    options: RegistryOptions,
    mirrors: Mirrors | None = None,
    *,
    missing: tuple[MissingInput, ...] = (),
    wait: Wait | None = None,
) -> RegistryCheck:
    """Ask the registry for *image* with each credential in order or, without any, anonymously; nothing is downloaded.

    Where the container runtime may not read the file of its *mirrors*, it is asked without them, too.
    """
    from keyferry.pulls.registry.check import check_endpoints
    from keyferry.pulls.registry.transport import RegistryRoute

    if options.ca_file and not os.path.isfile(options.ca_file):
        raise EnvironmentProblem(f"CA file {options.ca_file!r}: does not exist")
    route = RegistryRoute(ca_file=options.ca_file, is_insecure=options.insecure)
    seconds = options.timeout_seconds
    without_file: tuple[Attempt, ...] = ()
    with wait_for(wait, f"asking {registry_of(normalise(image))}", seconds):
        attempts = check_endpoints(image, credentials, mirrors, route=route, timeout_seconds=seconds)
        if mirrors is not None and mirrors.doubt:
            without_file = check_endpoints(image, credentials, None, route=route, timeout_seconds=seconds)
    return RegistryCheck(
        image=image, attempts=attempts, missing=missing, mirrors=mirrors, without_file=without_file
    )


def check_inputs(
    inputs: Inputs, answer: Answer, credentials: tuple[Credential, ...], *, wait: Wait | None = None
) -> RegistryCheck:
    """Ask the registry for the image of *answer* with each credential, as the node's container runtime does."""
    options = inputs.request.registry
    mirrors = image_mirrors(answer.image, options, inputs.node, inputs.found, is_here=True)
    return check_image(answer.image, credentials, options, mirrors, missing=answer.missing, wait=wait)


def verdict(check: RegistryCheck) -> str:
    """Return the verdict in one line."""
    return _VERDICTS[check.verdict](check)


def _yes(check: RegistryCheck) -> str:
    at, attempt = next((at, each) for at, each in enumerate(check.attempts, 1) if each.worked)
    source = f" from {attempt.mirror}" if attempt.mirror else ""
    if attempt.credential is None:
        return f"yes: {check.image} can be pulled{source} without a credential"
    if not attempt.was_asked:
        return f"yes: {check.image} can be pulled{source} without a credential being asked for"
    number = len(check.attempts)
    which = f", credential {at} of {number}" if number > 1 else ""
    return f"yes: {check.image} can be pulled{source} with {attempt.who}{which}"


def _no(check: RegistryCheck) -> str:
    if check.is_blocked:
        return f"no: {check.image}: {check.mirrors}"
    if check.kind is Kind.NOT_FOUND:
        return f"no: the registry has no {check.image}, or hides it from users without access"
    if check.attempts and check.attempts[0].credential is None:
        return f"no: there is no credential for {check.image}, and without one it cannot be pulled"
    number = len({attempt.credential for attempt in check.attempts})
    which = check.attempts[0].who if number == 1 else f"any of the {number} credentials"
    return f"no: {check.image} cannot be pulled with {which}"


def _cannot_tell(check: RegistryCheck) -> str:
    return f"cannot tell whether {check.image} can be pulled: {'; '.join(doubts(check))}"


def doubts(check: RegistryCheck) -> Iterator[str]:
    """Yield the reasons why the registry's response alone does not decide."""
    if check.half is not None and check.is_untold:
        yield f"node {check.half.node!r} does not tell of each attempt that its kubelet would make"
    yield from _without_answer(check)
    if check.other_way:
        yield check.other_way
    if check.error is None and check.is_perhaps_not_anonymous:
        yield "it can be pulled without a credential, but a kubelet that has one does not try that"
    if check.verdict is not PullVerdict.NO:
        yield from map(str, check.missing)


def _without_answer(check: RegistryCheck) -> Iterator[str]:
    """Yield the errors that say nothing about the image, each once."""
    if check.error is None:
        return
    answers = [each for attempt in check.attempts for each in attempt.answers]
    found = {
        "the registry" if each.is_registry else each.url: each.error for each in answers if not each.doubt
    }
    if not answers and isinstance(check.error, RegistryError):
        found = {"the registry": check.error}
    for who, error in found.items():
        if error is not None and error.kind in _NO_RESPONSE:
            yield error.message
        elif error is not None and error.kind not in _SURE:
            yield f"{who} gave no conclusive response: {error.message}"


_VERDICTS = {PullVerdict.YES: _yes, PullVerdict.NO: _no, PullVerdict.UNKNOWN: _cannot_tell}


def describe_attempt(attempt: Attempt) -> str:
    """Return the registry's response to one attempt as a phrase; of mirrors, each with the URL before it."""
    if all(answer.is_registry for answer in attempt.answers):
        return _phrase(attempt)
    # The message about a host that does not respond has the URL of the request.
    said = [
        each.error.message if each.error.kind in _NO_RESPONSE else f"{each.url}: {each.error.message}"
        for each in attempt.answers
        if each.error is not None
    ]
    if attempt.worked:
        said.append(f"{attempt.answers[-1].url}: {_phrase(attempt)}")
    return "; ".join(said)


def _phrase(attempt: Attempt) -> str:
    if attempt.error is not None:
        return attempt.error.message
    if attempt.was_asked:
        return "yes, it may pull" if attempt.credential is not None else "yes, anybody may pull"
    if attempt.credential is None:
        return "yes, it does not ask for a credential"
    return "yes, but it does not ask for a credential: this one was not checked"


def attempt_lines(check: RegistryCheck) -> Iterator[str]:
    """Yield one line for each attempt, in order, then a note about what the container runtime may do otherwise."""
    for at, attempt in enumerate(check.attempts, 1):
        sign = mark(Mark.YES if attempt.worked else Mark.NO)
        yield f"{sign} {at}. {printable(attempt.who)}: {printable(describe_attempt(attempt))}"
    if check.is_blocked:
        yield f"{mark(Mark.NO)} {printable(str(check.mirrors))}"
    elif check.other_way:
        yield f"{mark(Mark.UNKNOWN)} {printable(check.other_way)}"


def check_document(check: RegistryCheck) -> dict[str, object]:
    """Return a check as a document; ``canPull`` is null if the verdict is unknown."""
    mirrors = check.mirrors
    return {
        "canPull": None if check.verdict is PullVerdict.UNKNOWN else check.verdict is PullVerdict.YES,
        "outcome": str(check.verdict),
        "attempts": [_attempt(attempt) for attempt in check.attempts],
        "mirrors": None if mirrors is None else mirrors_document(mirrors),
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    credential, error = attempt.credential, attempt.error
    shown: dict[str, object] | None = None
    if credential is not None:
        source = source_document(credential.source)
        shown = {"username": redact(credential.username), "key": credential.key, "source": source}
    return {
        "credential": shown,
        "worked": attempt.worked,
        "asked": attempt.was_asked,
        "digest": attempt.digest,
        "cause": str(attempt.kind or ""),
        "status": error.status if isinstance(error, RegistryError) else 0,
        "message": describe_attempt(attempt),
        "endpoints": [_answer(each) for each in attempt.answers],
    }


def _answer(answer: EndpointAnswer) -> dict[str, object]:
    error = answer.error
    return {
        "url": answer.url,
        "registry": answer.is_registry,
        "worked": error is None,
        "cause": "" if error is None else str(error.kind),
        "status": 0 if error is None else error.status,
        "message": "" if error is None else error.message,
        "doubt": answer.doubt,
    }


# Mirrors.


def image_mirrors(
    image: str, options: RegistryOptions, node: Node, found: Discovery, *, is_here: bool
) -> Mirrors | None:
    """Return where the node's container runtime goes for the image, and how; None if no file says anything about it.

    Files of this machine count if *is_here*, or if its kubelet was found, unless the pod's node is elsewhere; else
    only those that options name.
    """
    if options.hosts_dir and not is_on_host(options.hosts_dir, os.path.isdir):
        raise EnvironmentProblem(f"--hosts-dir {options.hosts_dir!r}: is not a folder")
    is_named = options.hosts_dir or options.registries_conf
    is_this_node = (is_here or found.kubelet is not None) and not node.elsewhere
    if not (is_named or is_this_node):
        return None
    from keyferry.pulls.mirrors.endpoints import MirrorPlaces, running_places
    from keyferry.pulls.mirrors.find import find_endpoints

    places = MirrorPlaces(root=usual_root(os.environ))
    if is_named:
        places = replace(places, hosts_dir=options.hosts_dir, registries_conf=options.registries_conf)
    elif found.kubelet is not None:
        endpoint = node.settings_of(found.kubelet).endpoint
        socket = "" if endpoint is None else endpoint.value
        places = running_places(node.kubelets.runtimes, socket, root=places.root)
    return find_endpoints(image, places)


def mirror_traps(answer: Answer, mirrors: Mirrors | None) -> tuple[Reason, ...]:
    """Return what differs from a pull at the image's own registry."""
    # Where the runtime asks the registry alone, a credential goes where it belongs, whatever the settings of TLS.
    if mirrors is None or mirrors.is_registry_alone(answer.name.partition("/")[2]):
        return ()
    facts = mirrors_document(mirrors)
    if mirrors.problem or mirrors.is_blocked:
        trap = MirrorTrap.MIRROR_FILE if mirrors.problem else MirrorTrap.MIRROR_BLOCKED
        return (
            Reason(
                stage=ReasonStage.TRAP, subject=mirrors.file, outcome=trap, text=str(mirrors), facts=facts
            ),
        )
    registry = answer.name.partition("/")[0]
    if mirrors.is_login_only and answer.credentials:
        return ()  # a login of the runtime's own, which it does not use then
    text = f"{_way(mirrors)}: {_who_gets_it(mirrors, registry, has_any=bool(answer.credentials))}"
    return (
        Reason(
            stage=ReasonStage.TRAP, subject=mirrors.file, outcome=MirrorTrap.MIRROR, text=text, facts=facts
        ),
        *(_insecure(each, registry) for each in mirrors.others if _is_exposed(each, answer)),
        *_patterns(answer, mirrors),
    )


def _way(mirrors: Mirrors) -> str:
    doubt = f"; {mirrors.doubt}" if mirrors.doubt else ""
    places = ", then ".join(map(_place, mirrors.endpoints))
    return f"{mirrors.runtime} asks {places} ({mirrors.file}{doubt})"


def _place(endpoint: Endpoint) -> str:
    return f"{endpoint.url} (the registry itself)" if endpoint.is_registry else endpoint.url


def _who_gets_it(mirrors: Mirrors, registry: str, *, has_any: bool) -> str:
    """Return who gets the credential; as far as the runtime's code tells."""
    looked_up = f"the kubelet looks up credentials for {registry}"
    offers = {each.offer for each in mirrors.others or mirrors.endpoints}
    logins = ", ".join(each.host for each in mirrors.endpoints if each.has_login)
    if logins and not has_any:
        return f"{looked_up} only and has none; {mirrors.runtime} then uses the login of its own for {logins}"
    if offers == {CredentialOffer.OFFERED}:
        if not has_any:
            return f"{looked_up} only and has none, so the mirror gets none either"
        return (
            f"{looked_up} only, and {mirrors.runtime} offers them to each of these hosts that asks for one; "
            "a mirror that does not accept them refuses, and the next one is asked"
        )
    if offers == {CredentialOffer.WITHHELD}:
        return (
            f"{looked_up} only, and {mirrors.runtime} does not send them to another host; a mirror that asks for a "
            f"credential needs one in the auth file of {mirrors.runtime} (global_auth_file)"
        )
    return f"{looked_up} only; cannot tell which credential the other hosts get"


def _is_exposed(endpoint: Endpoint, answer: Answer) -> bool:
    return endpoint.is_insecure and endpoint.offer is CredentialOffer.OFFERED and bool(answer.credentials)


def _insecure(endpoint: Endpoint, registry: str) -> Reason:
    text = (
        f"{endpoint.url} is set without TLS or without a check of its certificate: if it asks for a credential, it "
        f"gets that of {registry}, which others on the network may then read"
    )
    return Reason(stage=ReasonStage.TRAP, subject=endpoint.url, outcome=MirrorTrap.MIRROR_INSECURE, text=text)


def _patterns(answer: Answer, mirrors: Mirrors) -> Iterator[Reason]:
    """Yield the patterns that are meant for a mirror: the kubelet never looks up a mirror's name."""
    covering = dict(answer.matching)
    for index, provider in enumerate(answer.providers):
        for pattern in provider.match_images or () if index not in covering else ():
            for each in mirrors.others:
                if explain_match(pattern, f"{each.host}/{each.repository}").matched:
                    shown = hide_user_info(pattern)
                    text = (
                        f"pattern {shown!r} of {provider.name!r} covers the mirror {each.host}, but the kubelet "
                        f"matches the image's own name, {answer.name}: the plugin is not run for it"
                    )
                    facts: dict[str, object] = {"provider": provider.name}
                    yield Reason(
                        stage=ReasonStage.TRAP,
                        subject=shown,
                        outcome=MirrorTrap.MIRROR_PATTERN,
                        text=text,
                        facts=facts,
                    )
                    break


def mirrors_document(mirrors: Mirrors) -> dict[str, object]:
    """Return the mirrors as a document."""
    return {
        "runtime": str(mirrors.runtime),
        "file": mirrors.file,
        "hosts": list(mirrors.hosts),
        "problem": mirrors.problem,
        "doubt": mirrors.doubt,
        "blocked": mirrors.is_blocked,
        "endpoints": [
            {
                "url": each.url,
                "host": each.host,
                "api": each.api,
                "repository": each.repository,
                "registry": each.is_registry,
                "credential": str(each.offer),
                "insecure": each.is_insecure,
                "login": each.has_login,
                "ca": list(each.trust.ca_files),
                "clientCertificates": [certificate for certificate, _ in each.trust.client_pairs],
                "headers": [name for name, _ in each.trust.headers],
            }
            for each in mirrors.endpoints
        ],
    }
