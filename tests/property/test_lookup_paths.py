"""However an answer is found (recalled or asked for), it is the one that the plain path finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from keyferry.agent.providers import AgentProviders
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import PluginError
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential, Keyring, Source, SourceKind, lookup_all
from keyferry.images.match import matches
from keyferry.images.provider.accounts import Pod, ServiceAccount
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import parse_image
from support.scripted import Accounts, Clock, Scripted, attributes, cache_hits, configured, response

IMAGES = [f"{registry}/{path}" for registry in ("reg.io", "a.reg.io", "other.io:5") for path in "abc"]
PATTERNS = (("reg.io", "*.reg.io"), ("*.io", "other.io:5/a"), ("reg.io/a", "other.io:5"))
KEYS = ("reg.io", "*.reg.io", "reg.io/a", "other.io:5", "https://reg.io/v1/", "u:p@reg.io", "bad host", "*.*")
PODS = (
    None,
    Pod(namespace="ns", name="pod", uid="uid", service_account_name="one"),
    Pod(namespace="ns", name="pod", uid="uid", service_account_name="two"),
    Pod(namespace="ns"),
)
PLUGINS = st.tuples(
    st.sampled_from(["Image", "Registry", "Global"]),
    st.sampled_from([0, 1, 30, 600]),
    st.lists(st.sampled_from(KEYS), max_size=5).map(tuple),
    st.sampled_from([None, "ServiceAccount", "Token"]),
    st.booleans(),
)
STEPS = st.lists(
    st.tuples(st.just("look"), st.sampled_from(IMAGES), st.sampled_from((None, *PODS)), st.booleans())
    | st.tuples(st.just("step"), st.sampled_from([0.01, 0.2, 1, 30, 601]))
    | st.tuples(st.just("evict"), st.sampled_from(IMAGES))
    | st.tuples(st.just("reload")),
    max_size=40,
)
Asked = Callable[[CredentialProviderRequest], CredentialProviderResponse | PluginError]
Plan = tuple[str, int, tuple[str, ...], str | None, bool]


class World:
    """AgentProviders with three plugins, by the quick way or without it, on a clock of their own."""

    def __init__(self, plans: list[Plan], *, quick: bool) -> None:
        self.plans, self.quick = plans, quick
        self.clock = Clock()
        self.runs = 0
        accounts = {("ns", name): ServiceAccount(uid=f"{name}-uid") for name in ("one", "two")}
        self.accounts = Accounts(accounts)
        self.load()

    def load(self) -> None:
        """Begin with empty caches, as after a reload."""
        members = []
        for number, (kind, seconds, keys, cache_type, required) in enumerate(self.plans):
            config = configured(
                f"plugin{number}",
                match_images=PATTERNS[number],
                token_attributes=None if cache_type is None else attributes(cache_type, require=required),
            )
            plugin = Scripted(self.answers(number, kind, seconds, keys))
            members.append(Provider(config, plugin, accounts=self.accounts, clock=self.clock))
        self.providers = AgentProviders(members, clock=self.clock)

    def answers(self, number: int, kind: str, seconds: int, keys: tuple[str, ...]) -> Asked:
        """A plugin whose every answer tells for whom it was made, and which run it was."""

        def answer(request: CredentialProviderRequest) -> CredentialProviderResponse:
            self.runs += 1
            password = f"{number}-{self.runs}-{request.image}-{request.service_account_token}"
            return response(password, cache_key_type=kind, cache_seconds=seconds, keys=keys)

        return answer

    def look(self, image: str, pod: Pod | None, *, in_loop: bool) -> Answer:
        """Look an image up; the plain path recalls nothing."""
        if self.quick and in_loop:
            return asyncio.run(self.providers.lookup_async(image, pod=pod))
        if self.quick:
            recalled = self.providers.recall(image, pod=pod)
            return self.providers.lookup(image, pod=pod) if recalled is None else recalled
        return self.providers.lookup(image, pod=pod)


def shown(answer: Answer) -> tuple[object, ...]:
    """Everything that an answer says but how the keyrings are kept."""
    keys = [(key, ring.credentials(key)) for ring in answer.keyrings for key in ring.index()]
    dropped = [each for ring in answer.keyrings for each in ring.dropped]
    said = [reason.text for reason in answer.reasons]
    return answer.image, answer.name, answer.credentials, answer.matching, said, keys, dropped, answer.outcome


@given(st.lists(PLUGINS, min_size=3, max_size=3), STEPS)
@settings(max_examples=120, deadline=None)
def test_every_way_to_an_answer_comes_to_the_same(plans: list[Plan], steps: list[tuple[object, ...]]) -> None:
    """Through reloads, evictions, expiry and pods of several accounts; the plugins run exactly as often."""
    quick, plain = World(plans, quick=True), World(plans, quick=False)
    for what, *rest in steps:
        for world in (quick, plain):
            if what == "step":
                world.clock.step(rest[0])  # type: ignore[arg-type] # a number, says the strategy
            elif what == "reload":
                world.load()
        if what == "look":
            image, pod, in_loop = rest
            found = [world.look(image, pod, in_loop=in_loop) for world in (quick, plain)]  # type: ignore[arg-type] # as above
            assert shown(found[0]) == shown(found[1])
            assert found[0].provisions == found[1].provisions
            assert found[0].answered_ns == found[1].answered_ns
        if what == "evict":
            image = str(rest[0])
            answers = [world.look(image, None, in_loop=False) for world in (quick, plain)]
            refused: list[Credential | None] = [next(iter(each.credentials), None) for each in answers]
            if refused[0] is not None and refused[1] is not None:
                assert quick.providers.evict(image, refused[0]) is plain.providers.evict(image, refused[1])
        assert quick.runs == plain.runs
        assert counted(quick) == counted(plain)


def counted(world: World) -> dict[str, int]:
    return cache_hits(world.providers)


@given(
    st.lists(st.lists(st.sampled_from(KEYS), max_size=4), max_size=3),
    st.lists(st.sampled_from(IMAGES), min_size=1, max_size=6),
)
def test_a_keyring_finds_the_same_however_often_it_is_asked(
    rings: list[list[str]], images: list[str]
) -> None:
    """Key by key, and joined of several."""
    one = Keyring()
    apart = []
    for number, keys in enumerate(rings):
        source = Source(kind=SourceKind.PROVIDER, name=str(number))
        entries = [(key, f"{number}-{at}", "p", "") for at, key in enumerate(keys)]
        one.add(source, entries)
        apart.append(Keyring())
        apart[-1].add(source, entries)
    joined = Keyring()
    for each in apart:
        joined.add_all(each)
    for image in [*images, *images]:
        plain = [each for key in one.index() if matches(key, image) for each in one.credentials(key)]
        assert lookup_all([one], image) == plain == lookup_all([joined], image)
    assert joined.dropped == one.dropped


@given(st.sampled_from([*IMAGES, "busybox", "team/app:v1", "reg.io/a@sha256:" + "0" * 64]))
def test_a_parsed_name_is_as_good_as_its_text(image: str) -> None:
    """A name that is carried is not parsed again, and has the same answer."""
    world = World([("Registry", 600, ("*.*",), None, False)] * 3, quick=True)
    name = parse_image(image)
    assert parse_image(name) is name
    by_text = world.providers.lookup(image)
    by_name = world.providers.lookup(name)
    assert (by_text.image, by_text.name) == (by_name.image, by_name.name) == (image, name.repository)
    assert by_text.credentials == by_name.credentials
