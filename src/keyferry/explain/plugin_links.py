"""The links of a chain that the node and the registry hold: the provider, its plugin's response, the registry."""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.secrets import MASK
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import Kind, MatchError
from keyferry.explain.chain import Link, LinkName, LinkState
from keyferry.explain.registry import PullVerdict, RegistryCheck, describe_attempt, verdict
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.keyring import Credential, lookup_all
from keyferry.images.lookup import Providers
from keyferry.images.match import PatternIndex, explain_match, normalise_key
from keyferry.images.provider.accounts import Pod
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import ImageName, registry_of
from keyferry.kit.lab.secrets import shown_key

__all__ = ["Matched", "keys_link", "plugin_link", "provider_link", "registry_link"]

_ATTRIBUTES = (
    "tokenAttributes: {serviceAccountTokenAudience: AUDIENCE, cacheType: ServiceAccount, "
    "requireServiceAccount: true}"
)


class Matched(Value):
    """The provider that is tried, and the pattern that covers the image."""

    config: CredentialProvider
    pattern: str


def provider_link(providers: Providers, image: ImageName, *, wanted: str = "") -> tuple[Link, Matched | None]:
    """Find the provider that covers the image and receives service account tokens; *wanted* chooses one by name."""
    configs = providers.configs
    index = PatternIndex(
        (owner, each) for owner, config in enumerate(configs) for each in config.match_images or ()
    )
    covering = [
        Matched(config=configs[owner], pattern=pattern) for owner, pattern in index.match(image.repository)
    ]
    chosen = [each for each in covering if not wanted or each.config.name == wanted]
    if not chosen:
        return _no_provider(configs, covering, image, wanted), None
    with_tokens = [each for each in chosen if _audience(each.config)]
    if not with_tokens:
        name = chosen[0].config.name
        text = f"provider {name!r} has no tokenAttributes: the kubelet passes it no service account token"
        cure = f"add this to provider {name!r}, with the audience that it expects: {_ATTRIBUTES}"
        return Link(
            name=LinkName.PROVIDER, state=LinkState.BROKEN, text=text, cure=cure, kind=Kind.ABSENT
        ), None
    return _provider_link(with_tokens[0], covering), with_tokens[0]


def _audience(config: CredentialProvider) -> str:
    attributes = config.token_attributes
    return "" if attributes is None else attributes.service_account_token_audience


def _no_provider(
    configs: tuple[CredentialProvider, ...], covering: list[Matched], image: ImageName, wanted: str
) -> Link:
    names = ", ".join(config.name for config in configs) or "none"
    if wanted and wanted not in {config.name for config in configs}:
        text = f"the config has no provider {wanted!r}, found {names}"
        return Link(name=LinkName.PROVIDER, state=LinkState.BROKEN, text=text, kind=Kind.ABSENT)
    which = f"provider {wanted!r} does not match" if covering or wanted else "no provider matches"
    cure = f"add a pattern such as {registry_of(image.repository)!r} to matchImages of the provider"
    facts = {"providers": names}
    return Link(
        name=LinkName.PROVIDER,
        state=LinkState.BROKEN,
        text=f"{which} the image",
        facts=facts,
        cure=cure,
        kind=Kind.ABSENT,
    )


def _provider_link(matched: Matched, covering: list[Matched]) -> Link:
    config, attributes = matched.config, matched.config.token_attributes
    facts: dict[str, object] = {"pattern": hide_user_info(matched.pattern), "audience": _audience(config)}
    if attributes is not None:
        facts["cacheType"] = attributes.cache_type
    others = [each.config.name for each in covering if each is not matched]
    if others:
        facts["other providers that match"] = others
    return Link(
        name=LinkName.PROVIDER, state=LinkState.OK, text=f"{config.name!r} matches the image", facts=facts
    )


def plugin_link(
    provider: Provider, image: ImageName, pod: Pod, *, trace: str
) -> tuple[Link, Provision | None]:
    """Run the plugin as the kubelet does; *trace* is the command that shows the exchange."""
    provision = provider.provide(image.repository, pod)
    if provision.error is not None or provision.outcome is not ProvisionOutcome.RAN:
        problem = provision.error
        text = str(problem) if problem is not None else provision.skipped
        cure = f"see the whole exchange with: {trace}"
        return Link(name=LinkName.PLUGIN, state=LinkState.BROKEN, text=text, cure=cure, error=problem), None
    number = len(provision.auth)
    facts: dict[str, object] = {
        "keys": [shown_key(key) for key in provision.auth],
        "cacheKeyType": provision.cache_key_type,
        "seconds": round(provision.seconds or 0.0, 3),
    }
    text = f"{provider.name!r} responds with {number} {'entry' if number == 1 else 'entries'}"
    return Link(name=LinkName.PLUGIN, state=LinkState.OK, text=text, facts=facts), provision


def keys_link(provision: Provision, image: ImageName) -> tuple[Link, tuple[Credential, ...]]:
    """Find the credentials that the kubelet would try, in order."""
    credentials = tuple(lookup_all((provision.keyring,), image.repository))
    if credentials:
        facts = {"keys": [f"{shown_key(each.key)} (user {_user(each)})" for each in credentials]}
        number = len(credentials)
        text = f"{number} {'credential matches' if number == 1 else 'credentials match'} the image"
        return Link(name=LinkName.KEYS, state=LinkState.OK, text=text, facts=facts), credentials
    reasons = [_why_not(key, image.repository) for key in provision.auth]
    text = "no key of the response matches the image" if reasons else "the response has no credentials"
    cure = f"a key such as {registry_of(image.repository)!r} in the plugin's response would match"
    facts = {"reasons": reasons} if reasons else {}
    return Link(
        name=LinkName.KEYS, state=LinkState.BROKEN, text=text, facts=facts, cure=cure, kind=Kind.ABSENT
    ), ()


def _user(credential: Credential) -> str:
    # A user name may be as secret as a password, if the plugin mixes up the two.
    return repr(credential.username) if len(credential.username) <= _LONGEST_NAME else MASK


_LONGEST_NAME = 64


def _why_not(key: str, repository: str) -> str:
    try:
        why = explain_match(normalise_key(key), repository).why
    except MatchError as error:
        why = error.message
    shown = shown_key(key)
    return "a key that is not the name of a registry" if shown == MASK else f"{shown}: {why}"


def registry_link(check: Callable[[], RegistryCheck]) -> Link:
    """Ask the registry with each credential, without a download."""
    checked = check()
    facts = {"responses": [f"{attempt.who}: {describe_attempt(attempt)}" for attempt in checked.attempts]}
    text = verdict(checked)
    if checked.verdict is PullVerdict.YES:
        return Link(name=LinkName.REGISTRY, state=LinkState.OK, text=text, facts=facts)
    state = LinkState.UNKNOWN if checked.verdict is PullVerdict.UNKNOWN else LinkState.BROKEN
    cure = (
        ""
        if state is LinkState.UNKNOWN
        else "let the role or identity of the account pull from the repository"
    )
    return Link(
        name=LinkName.REGISTRY,
        state=state,
        text=text,
        facts=facts,
        cure=cure,
        kind=checked.kind,
        error=checked.error,
    )
