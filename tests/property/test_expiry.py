"""Whatever happens in whatever order, nothing is served past its time or to the wrong side of an eviction."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.images.answer import ProvisionOutcome
from keyferry.images.lookup import Providers
from support.scripted import SECOND, Clock, Scripted, configured, provider, response

IMAGES = ["reg.io/a", "reg.io/b", "other.io/a"]
STEPS = st.lists(
    st.tuples(st.just("look"), st.sampled_from(IMAGES))
    | st.tuples(st.just("step"), st.sampled_from([0, 1, 5, 30, 600, 1000]))
    | st.tuples(st.just("evict"), st.sampled_from(IMAGES)),
    max_size=40,
)
DURATIONS = st.sampled_from([-5, 0, 1, 5, 30, 600])


class World:
    """A provider whose every answer has a password of its own, and what we know of each."""

    def __init__(self, kind: str, seconds: int) -> None:
        self.clock = Clock()
        self.kind, self.seconds = kind, seconds
        self.born: dict[str, int] = {}
        self.asked_for: dict[str, str] = {}
        self.plugin = Scripted(self.answer)
        config = configured(match_images=("reg.io", "other.io"))
        self.providers = Providers([provider(self.plugin, self.clock, config)], clock=self.clock)

    def answer(self, request: CredentialProviderRequest) -> CredentialProviderResponse:
        """A new password, whose birth is noted."""
        password = f"p{len(self.born)}"
        self.born[password] = self.clock.now
        self.asked_for[password] = request.image
        return response(password, cache_key_type=self.kind, cache_seconds=self.seconds, keys=("*.*",))

    def look(self, image: str) -> tuple[str, ProvisionOutcome]:
        """The password offered for an image, and how it came about."""
        answer = self.providers.lookup(image)
        return answer.credentials[0].password, answer.provisions[0].outcome


@given(st.sampled_from(["Image", "Registry", "Global"]), DURATIONS, STEPS)
@settings(max_examples=150)
def test_nothing_is_served_past_its_time_or_beyond_its_key(
    kind: str, seconds: int, steps: list[tuple[str, object]]
) -> None:
    """A cached answer is within its duration and for an image that its type covers; a new one is new."""
    world = World(kind, seconds)
    for what, value in steps:
        if what == "step":
            assert isinstance(value, int)
            world.clock.step(value)
            continue
        image = str(value)
        runs = world.plugin.runs
        password, how = world.look(image)
        age = world.clock.now - world.born[password]
        if how is ProvisionOutcome.RAN:
            assert (age, world.plugin.runs) == (0, runs + 1)
        elif world.plugin.runs == runs:
            assert seconds > 0
            assert age <= seconds * SECOND
            asked = world.asked_for[password]
            assert kind != "Image" or asked == image
            assert kind != "Registry" or asked.split("/")[0] == image.split("/", maxsplit=1)[0]
        if what == "evict":
            evict(world, image)


def evict(world: World, image: str) -> None:
    credential = world.providers.lookup(image).credentials[0]
    if world.providers.evict(image, credential):
        password, how = world.look(image)
        assert password != credential.password
        assert how is ProvisionOutcome.RAN


@given(st.integers(0, 2**62), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63))
def test_the_last_instant_is_exact_on_any_clock(start: int, duration: int, later: int) -> None:
    """An answer is served at exactly its expiry and not one nanosecond after, wherever the clock stands."""
    clock = Clock(start)
    good = response()
    plugin = Scripted(
        CredentialProviderResponse(cache_key_type="Registry", cache_duration_ns=duration, auth=good.auth)
    )
    asked = provider(plugin, clock)
    asked.provide("reg.io/a")
    clock.now = start + later
    expected = ProvisionOutcome.CACHED if duration > 0 and later <= duration else ProvisionOutcome.RAN
    assert asked.provide("reg.io/a").outcome is expected
