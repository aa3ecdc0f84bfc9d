"""The mirrors of an image as traps and as a document: who is asked, and who gets the kubelet's credential."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.user_info import hide_user_info
from keyferry.images.answer import Answer
from keyferry.images.match import explain_match
from keyferry.pulls.mirrors.endpoints import CredentialOffer, Endpoint, Mirrors

__all__ = ["MirrorTrap", "mirror_traps", "mirrors_document"]


class MirrorTrap(StrEnum):
    """The kinds of traps in the way of a container runtime to an image."""

    MIRROR = "mirror"
    MIRROR_BLOCKED = "mirror-blocked"
    MIRROR_FILE = "mirror-file"
    MIRROR_INSECURE = "mirror-insecure"
    MIRROR_PATTERN = "mirror-pattern"


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
