"""A pull: request, attempts in order, and records."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from keyferry import (
    BackOff,
    Pod,
    Providers,
    Puller,
    PullOptions,
    PullSecret,
    Records,
    open_target,
    parse_image,
)
from keyferry.api.credentialprovider.v1 import AuthConfig, CredentialProviderResponse
from keyferry.errors import (
    ContainerRuntimeError,
    EnvironmentProblem,
    ImagePullError,
    Kind,
    PluginError,
    PluginExitError,
    PullSecretError,
    RecordError,
    RegistryError,
)
from support.plugins import SteppedClock
from support.pulling import FakeTarget, intents_in, pull_secret, records_in, refusal
from support.records import open_quickly
from support.scripted import SECOND, Clock, Scripted, configured, provider

IMAGE, NAME = "reg.io/team/app:v1", "reg.io/team/app"
ALICE = pull_secret("alice", "reg.io", "alice", "a-word")
BOB = pull_secret("bob", "reg.io", "bob", "b-word")
CAROL = pull_secret("carol", "reg.io", "carol", "c-word")
BROKEN = PullSecret(
    namespace="team",
    name="broken",
    type="kubernetes.io/dockerconfigjson",
    data={".dockerconfigjson": b"{"},
    uid="u",
)


def target() -> FakeTarget:
    return FakeTarget(logins={("alice", "a-word"), ("bob", "b-word")})


def error_of(puller: Puller, image: str = IMAGE, **options: object) -> ImagePullError:
    outcome = puller.ensure(image, PullOptions(**options))  # type: ignore[arg-type] # whatever a test says
    assert outcome.action == "failed"
    assert isinstance(outcome.error, ImagePullError)
    return outcome.error


def test_an_absent_image_is_pulled_recorded_and_described(tmp_path: Path) -> None:
    """The intent is there while it is pulled, and the record after it."""
    there, seen = target(), []
    there.before = lambda _: seen.append(intents_in(tmp_path))
    outcome = Puller(there, records=open_quickly(tmp_path)).pull(IMAGE, PullOptions(pull_secrets=[ALICE]))
    assert seen == [[IMAGE]]
    assert (outcome.action, outcome.image_ref, outcome.digest, outcome.size) == (
        "pulled",
        "sha256:app-v1",
        "sha256:d-app-v1",
        7,
    )
    assert outcome.decision is not None
    assert (outcome.decision.rule, outcome.pull_policy) == ("absent", "IfNotPresent")
    (entry,) = records_in(tmp_path)["sha256:app-v1"].values()
    assert [each["name"] for each in entry["kubernetesSecrets"]] == ["alice"]
    assert outcome.recorded is not None
    assert intents_in(tmp_path) == []


def test_a_name_without_a_tag_is_pulled_as_latest_and_always() -> None:
    """The runtime gets the tag; the name in full is left to it."""
    there = FakeTarget(logins={("", "")})
    outcome = Puller(there).pull("busybox")
    assert (outcome.pull_policy, there.asked) == ("Always", [("busybox:latest", "")])


def test_a_present_image_is_used_and_nobody_is_asked_without_records(tmp_path: Path) -> None:
    """Not even the pod's own secrets, broken as they may be; with records they matter."""
    there = target()
    there.put(IMAGE)
    outcome = Puller(there).pull(IMAGE, PullOptions(pull_secrets=[BROKEN]))
    assert (outcome.action, outcome.image_ref, outcome.answer, there.asked) == (
        "present",
        "sha256:app-v1",
        None,
        [],
    )
    records = open_quickly(tmp_path)
    Puller(there, records=records).pull(IMAGE, PullOptions(pull_secrets=[ALICE], pull_policy="Always"))
    outcome = Puller(there, records=records).ensure(IMAGE, PullOptions(pull_secrets=[BROKEN]))
    assert isinstance(outcome.error, PullSecretError)
    assert records.counters.requests[("ifnotpresent", "true", "unknown")] == 1


def test_another_pods_image_is_pulled_to_verify(tmp_path: Path) -> None:
    """What it was recorded for stays, and who has shown a credential is added."""
    there, records = target(), open_quickly(tmp_path)
    puller = Puller(there, records=records)
    puller.pull(IMAGE, PullOptions(pull_secrets=[ALICE]))
    assert puller.pull(IMAGE, PullOptions(pull_secrets=[ALICE])).action == "present"
    assert puller.pull(IMAGE, PullOptions(pull_secrets=[BOB])).action == "pulled"
    assert puller.pull(IMAGE, PullOptions(pull_secrets=[BOB])).action == "present"
    assert error_of(puller).kind == "refused"
    assert there.asked == [(IMAGE, "a-word"), (IMAGE, "b-word"), (IMAGE, "")]
    (entry,) = records_in(tmp_path)["sha256:app-v1"].values()
    assert [each["name"] for each in entry["kubernetesSecrets"]] == ["alice", "bob"]
    assert records.counters.requests == {
        ("ifnotpresent", "false", "true"): 1,
        ("ifnotpresent", "true", "false"): 2,
        ("ifnotpresent", "true", "true"): 2,
    }
    assert records.counters.checks == {"credentialRecordFound": 2, "mustAuthenticate": 2}


def test_never_fails_in_the_same_words_whether_absent_or_forbidden(tmp_path: Path) -> None:
    """And pulls nothing."""
    there, records = target(), open_quickly(tmp_path)
    puller = Puller(there, records=records)
    absent = puller.ensure(IMAGE, PullOptions(pull_policy="Never"))
    there.put(IMAGE)
    forbidden = puller.ensure(IMAGE, PullOptions(pull_policy="Never"))
    for outcome in (absent, forbidden):
        assert isinstance(outcome.error, ImagePullError)
        assert outcome.error.args == absent.error.args  # type: ignore[union-attr] # checked for the first
        assert (outcome.decision, outcome.image_ref, outcome.attempts) == (None, "", ())
    assert forbidden.error is not None
    assert (
        forbidden.error.kubernetes_text
        == f'Container image "{IMAGE}" is not present with pull policy of Never'
    )
    assert there.asked == []
    assert records.counters.requests == {("never", "false", "unknown"): 1, ("never", "true", "true"): 1}
    free = Puller(there, records=open_quickly(tmp_path, "NeverVerify"))
    assert free.pull(IMAGE, PullOptions(pull_policy="Never")).action == "present"


def test_always_pulls_without_looking(tmp_path: Path) -> None:
    """Whether it is there is not even found out."""
    there, records = target(), open_quickly(tmp_path)
    there.put(IMAGE)
    outcome = Puller(there, records=records).pull(
        IMAGE, PullOptions(pull_policy="Always", pull_secrets=[BOB])
    )
    assert (outcome.action, outcome.decision) == ("pulled", None)
    assert records.counters.requests == {("always", "unknown", "true"): 1}
    assert records.counters.checks == {}


def test_if_nothing_works_all_that_was_said_is_told() -> None:
    """In our words by credential; in the kubelet's as one text, each saying once."""
    there = FakeTarget(error=refusal("no entry"))
    error = error_of(Puller(there), pull_secrets=[ALICE, BOB])
    assert str(error) == (
        f"cannot pull {IMAGE!r}: alice of pull secret team/alice: refused: no entry; "
        "bob of pull secret team/bob: refused: no entry"
    )
    assert (error.kubelet_reason, error.kubernetes_text, len(error.failures)) == (
        "ErrImagePull",
        "no entry",
        2,
    )
    there.error = ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)
    error = error_of(Puller(there), pull_secrets=[ALICE])
    assert (error.kind, error.kubernetes_text) == (
        "not-found",
        "rpc error: code = NotFound desc = x: not found",
    )


@pytest.mark.parametrize(
    ("said", "reason", "text"),
    [
        ("RegistryUnavailable: down", "RegistryUnavailable", "the registry is unavailable: down"),
        ("SignatureValidationFailed", "SignatureValidationFailed", "the signature validation failed"),
    ],
)
def test_what_a_runtime_says_first_can_be_a_reason(said: str, reason: str, text: str) -> None:
    """The kubelet knows two such words."""
    there = FakeTarget(error=ContainerRuntimeError("s", "UNKNOWN", said, Kind.ERROR))
    error = error_of(Puller(there))
    assert (error.kubelet_reason, error.kubernetes_text) == (
        reason,
        f"image pull failed for {IMAGE} because {text}",
    )


def test_a_failed_pull_is_waited_for_and_the_wait_writes_and_removes_an_intent(tmp_path: Path) -> None:
    """The wait is of one pod and one image; it names what went wrong before."""
    clock, there = SteppedClock(), FakeTarget()
    puller = Puller(there, records=open_quickly(tmp_path), back_off=BackOff(clock=clock))
    pod, other = Pod(namespace="team", name="a", uid="uid-a"), Pod(namespace="team", name="b", uid="uid-b")
    first = error_of(puller, pod=pod)
    waiting = error_of(puller, pod=pod)
    assert (waiting.kubelet_reason, waiting.kind) == ("ImagePullBackOff", "refused")
    assert (
        waiting.kubernetes_text == f'Back-off pulling image "{IMAGE}": ErrImagePull: {first.kubernetes_text}'
    )
    assert str(waiting) == f"waiting another 10 s before {IMAGE!r} is pulled again; the last error: {first}"
    assert intents_in(tmp_path) == []
    assert len(there.asked) == 1
    assert error_of(puller, pod=other).kubelet_reason == "ErrImagePull"
    clock.step(10)
    there.logins.add(("", ""))
    assert puller.pull(IMAGE, PullOptions(pod=pod)).action == "pulled"
    assert len(there.asked) == 3


def test_an_intent_is_noted_before_it_is_seen_whether_to_wait(tmp_path: Path) -> None:
    """If it cannot be, that is what is said, as in the kubelet."""
    puller = Puller(FakeTarget(), records=open_quickly(tmp_path))
    assert error_of(puller).kubelet_reason == "ErrImagePull"
    _obstruct(tmp_path, "pulling")
    assert isinstance(puller.ensure(IMAGE).error, RecordError)


def test_without_an_intent_nothing_is_pulled(tmp_path: Path) -> None:
    """The folder is gone: the pull fails before it begins, and nothing is asked of the registry."""
    there, records = target(), open_quickly(tmp_path)
    _obstruct(tmp_path, "pulling")
    outcome = Puller(there, records=records).ensure(IMAGE, PullOptions(pull_secrets=[ALICE]))
    assert isinstance(outcome.error, RecordError)
    assert there.asked == []


def test_a_pull_that_cannot_be_recorded_keeps_its_intent(tmp_path: Path) -> None:
    """The image is there and the outcome says so; to others it counts as pulled, and is verified."""
    there, records = target(), open_quickly(tmp_path, "NeverVerifyPreloadedImages")
    there.before = lambda _: _obstruct(tmp_path, "pulled")
    outcome = Puller(there, records=records).pull(IMAGE, PullOptions(pull_secrets=[ALICE]))
    assert (outcome.action, outcome.recorded) == ("pulled", None)
    assert outcome.record_problem is not None
    assert intents_in(tmp_path) == [IMAGE]
    assert records.decide(IMAGE, outcome.image_ref).must_pull


def _obstruct(root: Path, which: str) -> None:
    """Put a file in the place of a folder."""
    folder = root / "image_manager" / which
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    folder.write_text("")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(1), ValueError("a mistake of ours")])
def test_what_ends_a_pull_from_outside_leaves_the_intent(tmp_path: Path, end: BaseException) -> None:
    """The image may be there by now: until that is found out it counts as pulled."""
    records = open_quickly(tmp_path)
    with pytest.raises(type(end)):
        Puller(FakeTarget(error=end), records=records).ensure(IMAGE)
    assert intents_in(tmp_path) == [IMAGE]


@pytest.mark.parametrize(
    ("code", "left"),
    [("UNKNOWN", []), ("DEADLINE_EXCEEDED", [IMAGE]), ("CANCELLED", [IMAGE]), ("UNAVAILABLE", [IMAGE])],
)
def test_a_runtime_that_was_not_heard_to_the_end_leaves_the_intent(
    tmp_path: Path, code: str, left: list[str]
) -> None:
    """It may finish what we did not wait for."""
    there = FakeTarget(error=ContainerRuntimeError("s", code, "", Kind.TIMEOUT))
    error_of(Puller(there, records=open_quickly(tmp_path)))
    assert intents_in(tmp_path) == left


def test_names_that_do_not_parse_and_runtimes_that_do_not_answer_have_reasons_of_their_own() -> None:
    """In the kubelet's words."""
    error = error_of(Puller(FakeTarget()), "UPPER case", pull_policy="Always")
    assert (error.kubelet_reason, error.kind) == ("InvalidImageName", "name")
    assert error.kubernetes_text.startswith(
        'Failed to apply default image tag "UPPER case": couldn\'t parse image'
    )

    class Silent(FakeTarget):
        def find_image(self, image: str) -> None:
            raise ContainerRuntimeError("s", "UNAVAILABLE", f"no {image}", Kind.UNREACHABLE)

    error = error_of(Puller(Silent()))
    assert (error.kubelet_reason, error.kind) == ("ImageInspectError", "unreachable")
    assert (
        error.kubernetes_text
        == f'Failed to inspect image "": rpc error: code = Unavailable desc = no {IMAGE}'
    )


def test_a_parsed_name_is_pulled_as_its_text_is() -> None:
    """With the default tag for the target and the look-up, and as written in the outcome."""
    there = FakeTarget(logins={("", "")})
    by_text, by_name = (Puller(there).ensure(image) for image in ("app", parse_image("app")))
    assert there.asked == [("app:latest", "")] * 2
    assert by_name.image == by_text.image == "app"
    assert by_name.pull_policy == by_text.pull_policy == "Always"
    assert by_name.answer is not None
    assert by_text.answer is not None
    assert by_name.answer.image == by_text.answer.image == "app:latest"


def rotating() -> tuple[Scripted, Providers]:
    """A plugin that gives an old password until it is told otherwise, and its providers."""
    plugin = Scripted(login("old-word"))
    return plugin, Providers([provider(plugin, Clock())])


def login(password: str) -> CredentialProviderResponse:
    auth = {"reg.io": AuthConfig(username="alice", password=password)}
    return CredentialProviderResponse(cache_key_type="Registry", cache_duration_ns=600 * SECOND, auth=auth)


def test_a_provider_is_asked_once_more_when_its_credential_is_refused(tmp_path: Path) -> None:
    """What it gave first is forgotten; what is recorded serves every pod. Switched off, Kubernetes' way, it is not."""
    plugin, providers = rotating()
    there = target()
    assert error_of(Puller(there, providers=providers, evict=False)).kind == "refused"
    plugin.answer = login("a-word")
    records = open_quickly(tmp_path)
    outcome = Puller(there, providers=providers, records=records).pull(IMAGE)
    assert [password for _, password in there.asked] == ["old-word", "old-word", "a-word"]
    assert [each.is_renewed for each in outcome.attempts] == [False, True]
    assert records_in(tmp_path)["sha256:app-v1"] == {NAME: {"nodePodsAccessible": True}}
    assert plugin.runs == 2


def test_given_credentials_are_tried_in_place_of_a_look_up() -> None:
    """None at all is an anonymous attempt; their provider is asked once more all the same."""
    plugin, providers = rotating()
    there = target()
    known = providers.lookup(IMAGE).credentials
    puller = Puller(there, providers=providers)
    outcome = puller.ensure(IMAGE, PullOptions(credentials=(), pull_secrets=[ALICE]))
    assert [each.credential for each in outcome.attempts] == [None]
    assert (outcome.answer, plugin.runs) == (None, 1)
    plugin.answer = login("a-word")
    puller.pull(IMAGE, PullOptions(credentials=known, pod=Pod(namespace="team", name="web", uid="another")))
    assert [password for _, password in there.asked] == ["", "old-word", "a-word"]
    assert plugin.runs == 2


def test_a_registry_that_refuses_everything_does_not_make_plugins_run_on() -> None:
    """Once more for the first pull, and not at all for those that follow soon after."""
    plugin, providers = rotating()
    puller = Puller(FakeTarget(), providers=providers)
    for number in range(4):
        assert error_of(puller, pod=Pod(namespace="team", name="web", uid=f"uid-{number}")).kind == "refused"
    assert plugin.runs == 2


def test_a_plugin_that_fails_leaves_the_kubelets_anonymous_attempt_and_is_told() -> None:
    """Never silently."""
    failing = Providers([provider(Scripted(PluginExitError("plugin", 1)), Clock())])
    outcome = Puller(FakeTarget(logins={("", "")}), providers=failing).pull(IMAGE)
    assert (outcome.action, outcome.used) == ("pulled", None)
    assert [each.provider for each in outcome.failures] == ["plugin"]


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (None, 6)])
def test_no_more_pulls_than_allowed_run_at_once(most: int | None, expected: int) -> None:
    """However many threads ask; the others wait."""
    there, gate = FakeTarget(logins={("", "")}), threading.Barrier(expected)
    one_too_many = threading.Event()

    def meet(_: str) -> None:
        """Wait until the group is full: with fewer at once nobody would ever go on."""
        if there.at_once > expected:
            one_too_many.set()
        gate.wait(20)
        if not there.images:  # the first group, while the other threads wait for its end
            one_too_many.wait(0.5)

    there.before = meet
    puller = Puller(there, max_parallel=most)
    threads = [threading.Thread(target=puller.pull, args=(f"reg.io/app{number}:v1",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (there.most_at_once, len(there.images)) == (expected, 6)


def test_it_can_be_awaited(tmp_path: Path) -> None:
    """Several at once; a failure is raised."""
    there = target()
    puller = Puller(there, records=open_quickly(tmp_path), max_parallel=4)

    async def all_of_them() -> list[str]:
        names = [f"reg.io/app{number}:v1" for number in range(5)]
        outcomes = await asyncio.gather(
            *(puller.pull_async(name, PullOptions(pull_secrets=[BOB])) for name in names)
        )
        with pytest.raises(ImagePullError):
            await puller.pull_async("reg.io/app9:v1")
        return [outcome.action for outcome in outcomes]

    with puller:
        assert asyncio.run(all_of_them()) == ["pulled"] * 5
    assert len(records_in(tmp_path)) == 5


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    """Zero pulls at once is none at all."""
    with pytest.raises(ValueError, match="max_parallel is 0"):
        Puller(FakeTarget(), max_parallel=0)


def test_no_secret_is_in_an_outcome_or_its_error(tmp_path: Path) -> None:
    """Whatever is printed of them."""
    records: Records = open_quickly(tmp_path)
    outcome = Puller(target(), records=records).ensure(IMAGE, PullOptions(pull_secrets=[ALICE]))
    failed = Puller(FakeTarget(), records=records).ensure(
        IMAGE, PullOptions(pull_secrets=[ALICE], pull_policy="Always")
    )
    assert failed.error is not None
    assert failed.error.__traceback__ is None
    (attempt,) = failed.attempts
    assert attempt.error is not None
    assert (attempt.error.__traceback__, attempt.error.__context__) == (None, None)
    for text in (repr(outcome), repr(failed), str(failed.error), failed.error.kubernetes_text):
        assert "a-word" not in text
        assert outcome.used is not None
        assert outcome.used.hash not in text


def test_a_target_is_one_thing_or_the_other(tmp_path: Path) -> None:
    """And a platform goes with a folder."""
    with pytest.raises(ValueError, match="not both"):
        open_target(cri="/run/x.sock", to=tmp_path)
    with pytest.raises(ValueError, match="its own platform"):
        open_target(cri="/run/x.sock", platform="linux/arm64")
    with pytest.raises(EnvironmentProblem, match=r"socket '/run/no/such\.sock' does not exist"):
        open_target(cri="unix:///run/no/such.sock")


KEY, OTHER = ("pod", "image"), ("another pod", "image")
ERROR = EnvironmentProblem("no")


def test_each_failure_doubles_the_wait_up_to_five_minutes() -> None:
    """10 seconds first, to the nanosecond; others do not wait."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    assert back_off.seconds_left(KEY) == 0
    waits = []
    for _ in range(7):
        back_off.fail(KEY, ERROR)
        waits.append(back_off.seconds_left(KEY))
        clock.now_ns += round(waits[-1] * 1_000_000_000) - 1
        assert back_off.seconds_left(KEY) > 0
        clock.now_ns += 1
        assert back_off.seconds_left(KEY) == 0
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert back_off.seconds_left(OTHER) == 0


def test_twice_the_longest_wait_without_a_failure_begins_anew() -> None:
    """At that very time the old wait still counts."""
    clock = SteppedClock()
    for seconds, expected in ((600, 20), (600.000000001, 10)):
        back_off = BackOff(clock=clock)
        back_off.fail(KEY, ERROR)
        clock.step(seconds)
        back_off.fail(KEY, ERROR)
        assert back_off.seconds_left(KEY) == expected


def test_what_a_pull_came_to_is_known_until_the_next_is_begun() -> None:
    """The wait itself is not changed by that."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    back_off.begin(KEY)
    assert back_off.last_error(KEY) is None
    back_off.fail(KEY, ERROR)
    assert back_off.last_error(KEY) is ERROR
    back_off.begin(KEY)
    assert back_off.last_error(KEY) is None
    assert back_off.seconds_left(KEY) == 10


def test_sweeping_forgets_only_what_is_old() -> None:
    """Memory does not grow with every image that ever failed."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    back_off.fail(KEY, ERROR)
    clock.step(601)
    back_off.fail(OTHER, ERROR)
    back_off.sweep()
    assert back_off.last_error(KEY) is None
    assert back_off.last_error(OTHER) is ERROR


def test_what_says_more_than_a_refusal_is_the_cause() -> None:
    """One credential was refused, another came further: the image is not there."""
    missing = ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)
    there = FakeTarget(errors={"b-word": missing})
    error = error_of(Puller(there), pull_secrets=[ALICE, BOB, CAROL])
    assert error.kind == "not-found"
    assert error.kubernetes_text == "[401 Unauthorized, rpc error: code = NotFound desc = x: not found]"


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("reg.io:5000/team/app", "Always"),
        (f"reg.io/app:latest@{DIGEST}", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("reg.io/app:Latest", "IfNotPresent"),
        (f"reg.io/app@{DIGEST}", "IfNotPresent"),
        ("reg.io/Not An Image", "IfNotPresent"),
    ],
)
def test_the_default_policy_goes_by_the_tag(image: str, expected: str) -> None:
    """Only a name that means "latest" is pulled always; a digest alone is not that. What is given counts."""
    assert Puller(FakeTarget()).ensure(image).pull_policy == expected
    assert Puller(FakeTarget()).ensure(image, PullOptions(pull_policy="Never")).pull_policy == "Never"


def test_a_policy_must_be_in_kubernetes_spelling() -> None:
    with pytest.raises(ValueError, match=r"'always', expected one of Always, IfNotPresent, Never"):
        Puller(FakeTarget()).ensure("busybox", PullOptions(pull_policy="always"))


# The order of attempts


Given = Sequence[str] | PluginError


def given(answer: Given) -> CredentialProviderResponse | PluginError:
    """An answer with these passwords, for keys that are tried in their order; none for an empty one."""
    if isinstance(answer, PluginError):
        return answer
    passwords = zip(("reg.io/team/app", "reg.io/team", "reg.io"), answer, strict=False)
    auth = {key: AuthConfig(username="user", password=each) for key, each in passwords if each}
    return CredentialProviderResponse(cache_key_type="Registry", cache_duration_ns=600 * SECOND, auth=auth)


class World:
    """A registry that takes one password, and plugins whose second answer is another one than the first."""

    def __init__(self, right: str, **plugins: tuple[Given, Given]) -> None:
        self.target = FakeTarget(logins={("user", right), ("bob", right)})
        self.plugins = {name: self._changing(*answers) for name, answers in plugins.items()}
        self.clock = Clock()
        members = [provider(plugin, self.clock, configured(name)) for name, plugin in self.plugins.items()]
        self.puller = Puller(self.target, providers=Providers(members))

    @staticmethod
    def _changing(first: Given, second: Given) -> Scripted:
        plugin = Scripted(lambda _: given(first if plugin.runs == 1 else second))
        return plugin

    def tried(self, *secrets: PullSecret) -> list[tuple[str, bool, bool]]:
        """Pull; return each password that was tried, whether it worked, and whether it was renewed."""
        self.outcome = self.puller.ensure(IMAGE, PullOptions(pull_secrets=secrets))
        return [
            ("" if each.credential is None else each.credential.password, each.worked, each.is_renewed)
            for each in self.outcome.attempts
        ]

    @property
    def runs(self) -> list[int]:
        """How often each plugin was run."""
        return [plugin.runs for plugin in self.plugins.values()]


def test_each_is_tried_in_order_until_one_works() -> None:
    """What comes after it is not; the provider of a refused secret is none."""
    world = World("b-word", p=(["other"], ["new"]))
    assert world.tried(ALICE, BOB, CAROL) == [("a-word", False, False), ("b-word", True, False)]
    assert world.runs == [1]


def test_whatever_the_failure_the_next_is_tried() -> None:
    """As in the kubelet: a registry that cannot be reached now may be a moment later. Only a refusal is renewed."""
    world = World("c", p=(["a", "b", "c"], ["new"]))
    world.target.errors["a"] = RegistryError("reg.io", 0, "gone", Kind.UNREACHABLE)
    world.target.errors["b"] = ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)
    assert world.tried() == [("a", False, False), ("b", False, False), ("c", True, False)]
    assert [each.kind for each in world.outcome.attempts] == ["unreachable", "not-found", None]
    assert world.runs == [1]


def test_a_refused_credential_is_renewed_and_what_comes_takes_the_place_of_all_its_providers() -> None:
    """Right away, before those of others; the provider's other old ones are not tried at all."""
    world = World("other", p=(["old", "old too"], ["new", "newer"]), q=(["", "", "other"], ["never"]))
    assert world.tried() == [
        ("old", False, False),
        ("new", False, True),
        ("newer", False, True),
        ("other", True, False),
    ]
    assert world.runs == [2, 1]


def test_a_provider_is_asked_once_more_and_never_again() -> None:
    """Also if what it gives then is refused; another is asked for itself. The same again is not tried twice."""
    world = World("nothing", p=(["old"], ["new"]), q=(["x"], ["x"]))
    world.target.before = lambda _: world.clock.step(
        31
    )  # after which its answer could be forgotten once more
    assert [password for password, _, _ in world.tried()] == ["old", "new", "x"]
    assert world.runs == [2, 2]


def test_a_provider_that_has_nothing_more_leaves_the_rest_to_be_tried() -> None:
    """Why it had nothing is kept."""
    world = World("old too", p=(["old", "old too"], PluginError("p", "down")))
    assert world.tried() == [("old", False, False), ("old too", True, False)]
    assert [each.provider for each in world.outcome.failures] == ["p"]
