"""An explanation says what a pull would get, and gets nothing for it: no run, no count, no secret."""

from __future__ import annotations

import pytest

from keyferry.agent.page.explanation import explain_cached
from keyferry.errors import PluginExitError
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Relayed
from keyferry.images.provider.provider import Provider
from keyferry.page.model import Advice, ExplainedPull, StepState
from support.page_snapshots import take
from support.scripted import Clock, Scripted, attributes, cache_hits, configured, response

SECRET = "secret-word"
STEPS = ("secrets", "node-config", "providers", "keys", "order", "verdict")


class World:
    """Two providers: one for everybody, one that needs a service account."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.plugins = [
            Scripted(response(SECRET, cache_seconds=600, keys=(key,))) for key in ("reg.io", "sa.io")
        ]
        configs = (
            configured("open", match_images=("reg.io", "*.wide.io")),
            configured("closed", match_images=("sa.io",), token_attributes=attributes()),
        )
        made = [
            Provider(config, plugin, clock=self.clock)
            for config, plugin in zip(configs, self.plugins, strict=True)
        ]
        self.providers = Providers(made, clock=self.clock)

    def explain(self, image: str, account: str = "") -> ExplainedPull:
        """Explain, and check that nothing happened and that nothing secret is said."""
        before = self._counts()
        found = explain_cached(take(self.providers, self.clock), image, account)
        assert self._counts() == before
        assert SECRET not in repr(found)
        assert "'user'" not in repr(found)
        return found

    def _counts(self) -> object:
        runs = [plugin.runs for plugin in self.plugins]
        return (
            runs,
            cache_hits(self.providers),
            [each.counters.read().shared for each in self.providers.providers],
        )


def states(found: ExplainedPull) -> dict[str, StepState]:
    assert tuple(step.name for step in found.steps) == STEPS
    return {step.name: step.state for step in found.steps}


def lines(found: ExplainedPull, name: str) -> str:
    return "\n".join(next(step.lines for step in found.steps if step.name == name))


def test_what_is_cached_would_be_answered_until_its_end() -> None:
    world = World()
    world.providers.lookup("reg.io/app:v1")
    found = world.explain("reg.io/app:v2")
    assert found.verdict == "Would answer from the cache until 1970-01-12T14:05:00Z"
    assert states(found) == {
        "secrets": StepState.UNKNOWN,
        "node-config": StepState.UNKNOWN,
        **dict.fromkeys(("providers", "keys", "order", "verdict"), StepState.USED),
    }
    assert "open: pattern 'reg.io' matches the image" in lines(found, "providers")
    assert "from the cache, the plugin was not run" in lines(found, "providers")
    assert "1 provider does not match the image" in lines(found, "providers")
    assert lines(found, "order") == "1. the login of provider open, key 'reg.io'"
    assert found.cures == (
        Advice(
            text="To check whether reg.io accepts it:",
            lines=("keyferry explain reg.io/app:v2 --check-registry",),
        ),
    )
    assert [each.lines for each in found.in_full] == [
        ("keyferry explain reg.io/app:v2 --docker-config auto --check-registry",),
        ("keyferry explain pod/POD -n NAMESPACE --check-registry",),
    ]


def test_what_is_not_cached_would_run_the_plugin() -> None:
    found = World().explain("reg.io/app")
    assert found.verdict == "Would run the plugin 'open'"
    assert lines(found, "providers").splitlines()[1] == "open: would run the plugin 'open'"
    assert states(found)["providers"] is StepState.UNKNOWN


def test_a_plugin_that_failed_is_named_in_our_words() -> None:
    world = World()
    world.plugins[0].answer = PluginExitError("open", 4, "", "printed-this")
    world.providers.lookup("reg.io/app")
    found = world.explain("reg.io/app")
    assert "its last run failed: plugin 'open': exited with status 4" in lines(found, "providers")
    assert found.verdict == "Would run the plugin 'open'; the last run failed"
    assert (states(found)["providers"], states(found)["verdict"]) == (StepState.BROKEN, StepState.BROKEN)
    assert "printed-this" not in repr(found)
    command = "keyferry plugin trace /bin-dir/open reg.io/app --config /etc/providers.yaml -o text"
    assert found.cures == (Advice(text="See why 'open' fails:", lines=(command,)),)


def test_no_provider_and_a_near_miss() -> None:
    world = World()
    found = world.explain("elsewhere.io/app")
    assert found.verdict.startswith("No provider matches")
    assert states(found)["verdict"] is StepState.PASSED
    near = world.explain("reg.io:5000/app")
    assert "'reg.io:5000' would match" in lines(near, "providers")
    assert near.cures


def test_a_service_account_finds_its_own_answer_by_the_name_that_the_caller_gave() -> None:
    world = World()
    assert world.explain("sa.io/app", "ns/builder").verdict == "Would run the plugin 'closed'"
    assert "with a token of ns/builder" in lines(world.explain("sa.io/app", "ns/builder"), "providers")
    pod = Relayed(
        token="t", key=b"k", until_ns=1 << 60, ref=ServiceAccountRef(namespace="ns", name="builder", uid="u")
    )
    world.providers.lookup("sa.io/app", pod=pod)
    found = world.explain("sa.io/other", "ns/builder")
    assert found.verdict.endswith("to who has the same token")
    assert "an answer for ns/builder is cached until" in lines(found, "providers")
    assert [each.lines for each in found.in_full] == [
        ("keyferry explain sa.io/other --service-account ns/builder --docker-config auto --check-registry",),
        ("keyferry explain pod/POD -n ns --check-registry",),
        ("kubectl get serviceaccount builder -n ns -o yaml",),
    ]
    assert world.explain("sa.io/app", "ns/other").verdict == "Would run the plugin 'closed'"
    assert world.explain("sa.io/app").verdict == "Would run the plugin 'closed'"


@pytest.mark.parametrize("image", ["a b", "\x1b[31m", "x" * 5000, "/", "<script>"])
def test_what_is_no_image_is_told_as_text(image: str) -> None:
    found = World().explain(image)
    assert (found.steps, found.in_full) == ((), ())
    assert "\x1b" not in repr(found)
    assert len(found.image) <= 1024


def test_a_name_that_is_longer_than_any_is_not_parsed() -> None:
    """Nor is a part of it, which would be another image."""
    found = World().explain("reg.io/app:" + "t" * 1014)
    assert (found.verdict, found.steps) == ("the name is longer than 1024 characters", ())
    assert len(found.image) == 255
