"""Pulls into a real container runtime, and into a layout, from real registries, with the records that come of them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from keyferry import (
    Credential,
    ImagePullError,
    Providers,
    Puller,
    PullOptions,
    PullSecret,
    Records,
    load_records,
    pull,
    pull_async,
)
from keyferry.pulls.cri import Runtime, connect_runtime
from support.commands import plain_pod, run_in_process
from support.images import build, noise
from support.kubelets import Processes
from support.plugins import Node, provider_entry, wait_until
from support.pull_world import KINDS, TARGETS, USERS, World, running_world
from support.pulling import intents_in, pull_secret, records_in, silent_server, write_secret
from support.records import run_python

KILLS = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("world")) as everything:
        yield everything


@pytest.fixture
def runtime(world: World) -> Iterator[Runtime]:
    with connect_runtime(f"unix://{world.containerd.socket}") as connected:
        yield connected


def secret_of(world: World, user: str, kind: str = "basic", password: str = "") -> PullSecret:
    return pull_secret(f"of-{user}", world.host(kind), user, password or USERS[user])


def credentials_of(image: str, *secrets: PullSecret) -> Sequence[Credential]:
    """What a pod with these secrets has for an image."""
    return Providers(()).lookup(image, pull_secrets=secrets).credentials


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_credential_that_works_is_used_and_recorded(
    world: World, tmp_path: Path, kind: str, where: str
) -> None:
    """A wrong one fails and says so; before a right one it is passed over, and only the right one is recorded."""
    image = world.put(kind, f"first/{where}")
    wrong = pull_secret("wrong", world.host(kind), "alice", "no-such-word")
    records = load_records(str(tmp_path))
    with Puller(world.target(where, tmp_path), records=records) as puller:
        failed = puller.ensure(image, PullOptions(pull_secrets=[wrong], pod=None))
        assert isinstance(failed.error, ImagePullError)
        assert (failed.error.kubelet_reason, failed.error.kind) == ("ErrImagePull", "refused")
        assert str(failed.error).startswith(
            f"cannot pull {image!r}: alice of pull secret team/wrong: refused: "
        )
        assert "no-such-word" not in f"{failed!r} {failed.error} {failed.error.kubernetes_text}"
        assert (intents_in(tmp_path), records_in(tmp_path)) == ([], {})
    with Puller(world.target(where, tmp_path), records=records) as puller:
        pulled = puller.pull(image, PullOptions(pull_secrets=[wrong, secret_of(world, "bob", kind)]))
        assert [(each.worked, each.kind) for each in pulled.attempts] == [(False, "refused"), (True, None)]
        assert pulled.used is not None
        assert pulled.used.username == "bob"
        found = puller.target.find_image(image)
    assert found is not None
    assert found.id == pulled.image_ref
    assert intents_in(tmp_path) == []
    (entry,) = records_in(tmp_path)[pulled.image_ref].values()
    assert [each["name"] for each in entry["kubernetesSecrets"]] == ["of-bob"]


def test_the_command_pulls_into_the_runtime_with_what_a_plugin_gives(
    world: World, runtime: Runtime, node: Node, tmp_path: Path
) -> None:
    """As a user does it; the password is shown nowhere."""
    image = world.put("tls", "command/app")
    config = plugin_of(world, node, "tls", "alice", USERS["alice"])
    options = [*config, *world.options("runtime", tmp_path), "--root", str(tmp_path / "root")]
    done = run_in_process("pull", image, *options, "-o", "json")
    assert done.returncode == 0, done.stderr
    (item,) = json.loads(done.stdout)["items"]
    found = runtime.find_image(image)
    assert found is not None
    assert (item["result"], item["imageRef"]) == ("pulled", found.id)
    assert found.digests[0].endswith(item["digest"])
    assert item["credential"]["source"] == {"kind": "provider", "name": "plugin"}
    assert item["recorded"]["everyPodOfTheNode"] is True
    again = run_in_process("pull", image, *options)
    assert "every pod of the node may use it" in again.stdout
    write_login(node, world.host("tls"), "alice", "another-word")
    refused = run_in_process("pull", image, *options, "--pull-policy", "Always")
    assert refused.returncode == 5
    assert "alice of provider plugin: refused: " in refused.stderr
    assert "401 Unauthorized" in refused.stderr
    shown = "".join(each.stdout + each.stderr for each in (done, again, refused))
    assert USERS["alice"] not in shown
    assert "another-word" not in shown


def test_beside_a_kubelet_a_private_image_is_pulled_only_for_every_pod(
    world: World, runtime: Runtime, processes: Processes, tmp_path: Path
) -> None:
    """What a kubelet did not pull itself is preloaded to it, with records elsewhere or without any."""
    image = world.put("basic", "beside/app")
    secret = write_secret(tmp_path, "s", world.host("basic"), "alice", USERS["alice"])
    words = ["pull", image, *world.options("runtime", tmp_path), "--secret", secret]
    with processes.kubelet(f"--container-runtime-endpoint=unix://{world.containerd.socket}") as pid:
        for more in ([], ["--root", str(tmp_path / "root")], ["--no-kubelet"]):
            done = run_in_process(*words, *more)
            assert done.returncode == 3, done.stderr
            assert f"a kubelet (process {pid}) uses the container runtime at" in done.stderr
            assert "--preload" in done.stderr
        assert runtime.find_image(image) is None
        assert (intents_in(tmp_path / "root"), records_in(tmp_path / "root")) == ([], {})
        told = run_in_process(*words, "--preload")
        assert told.returncode == 0, told.stderr
    assert runtime.find_image(image) is not None
    again = run_in_process(*words, "--pull-policy", "Always")
    assert again.returncode == 0, "and without a kubelet nobody has to be told"


def plugin_of(world: World, node: Node, kind: str, user: str, password: str) -> list[str]:
    """A plugin that gives whatever login is in a file just then; the options that name it."""
    host = world.host(kind)
    node.shell('cat > /dev/null; echo run >> "$HERE/runs"; cat "$HERE/login.json"')
    write_login(node, host, user, password)
    node.entries.append(provider_entry(matchImages=[host]))
    node.load()
    return ["--config", str(node.config), "--bin-dir", str(node.bin_dir)]


def write_login(node: Node, host: str, user: str, password: str) -> None:
    from support.plugins import answer

    node.file("login.json").write_text(answer("Registry", duration="1h", auth={host: (user, password)}))


@pytest.mark.parametrize("where", TARGETS)
def test_a_changed_password_is_survived_by_asking_the_plugin_once_more(
    world: World, node: Node, tmp_path: Path, where: str
) -> None:
    """The cached credential is refused, forgotten, and the plugin's new one works; switched off, the pull fails."""
    image = world.put("basic", f"rotated/{where}")
    plugin_of(world, node, "basic", "carol", "first-word")
    registry, providers = world.registries["basic"], node.load()
    try:
        registry.set_users({**USERS, "carol": "first-word"})
        with Puller(world.target(where, tmp_path), providers=providers, evict=False) as puller:
            assert puller.pull(image).action == "pulled"
            registry.set_users({**USERS, "carol": "second-word"})
            write_login(node, registry.host, "carol", "second-word")
            assert puller.ensure(image, PullOptions(pull_policy="Always")).error is not None
        with Puller(world.target(where, tmp_path), providers=providers) as puller:
            pulled = puller.pull(image, PullOptions(pull_policy="Always"))
    finally:
        registry.set_users(USERS)
    assert [(each.worked, each.is_renewed) for each in pulled.attempts] == [(False, False), (True, True)]
    assert node.file("runs").read_text().count("run") == 2


@pytest.mark.parametrize("where", TARGETS)
def test_a_pod_may_use_what_another_pulled_only_after_it_has_shown_its_own_credential(
    world: World, tmp_path: Path, where: str
) -> None:
    """Alice's pod pulled; Bob's must verify, fails with a wrong word, and is recorded beside her with the right one."""
    image = world.put("basic", f"shared/{where}")
    records, target = load_records(str(tmp_path)), world.target(where, tmp_path)

    def ensure(*secrets: PullSecret, policy: str = "") -> tuple[str, str, str]:
        # Each pod waits for itself alone, so that none is held up by another's failure.
        used = load_records(str(tmp_path), policy=policy) if policy else records
        outcome = Puller(target, records=used).ensure(image, PullOptions(pull_secrets=secrets))
        rule = "" if outcome.decision is None else outcome.decision.rule
        return outcome.action, rule, "" if outcome.error is None else outcome.error.kind

    try:
        alice, bob = secret_of(world, "alice"), secret_of(world, "bob")
        assert ensure(alice) == ("pulled", "absent", "")
        assert ensure(alice) == ("present", "same-credential", "")
        assert ensure() == ("failed", "stranger", "refused")
        assert ensure(secret_of(world, "bob", password="guessed")) == ("failed", "stranger", "refused")
        assert ensure(policy="NeverVerify") == ("present", "policy", "")
        assert ensure(bob) == ("pulled", "stranger", "")
        assert ensure(bob) == ("present", "same-credential", "")
        assert ensure(alice, policy="AlwaysVerify") == ("present", "same-credential", "")
    finally:
        target.close()
    ((entry,),) = (mapping.values() for mapping in records_in(tmp_path).values())
    assert [each["name"] for each in entry["kubernetesSecrets"]] == ["of-alice", "of-bob"]


def test_an_image_that_came_with_the_node_is_free_unless_every_use_is_verified(
    world: World, runtime: Runtime, tmp_path: Path
) -> None:
    """What somebody else brought has no record; the allowlist and AlwaysVerify make the difference."""
    image = world.put("basic", "preloaded/app")
    target = world.target("runtime", tmp_path)
    runtime.pull_image(image, *credentials_of(image, secret_of(world, "alice")))
    pattern = image.partition("/")[0] + "/preloaded/*"
    cases = [
        ("NeverVerifyPreloadedImages", (), "present"),
        ("NeverVerifyAllowlistedImages", (pattern,), "present"),
        ("NeverVerifyAllowlistedImages", (), "failed"),
        ("AlwaysVerify", (), "failed"),
        ("NeverVerify", (), "present"),
    ]
    try:
        for policy, allowlist, expected in cases:
            records = load_records(str(tmp_path), policy=policy, allowlist=allowlist)
            outcome = Puller(target, records=records).ensure(image)
            assert (policy, outcome.action) == (policy, expected)
    finally:
        target.close()


def test_never_does_not_tell_an_image_that_is_there_from_one_that_is_not(
    world: World, tmp_path: Path
) -> None:
    """The same words, the same exit code and the same document for a pod that may not use it."""
    image = world.put("basic", "never/app")
    options = [*world.options("runtime", tmp_path), "--root", str(tmp_path), "--policy", "AlwaysVerify"]
    secret = write_secret(tmp_path, "of-alice", world.host("basic"), "alice", USERS["alice"])
    assert run_in_process("pull", image, *options, "--secret", secret).returncode == 0
    absent = image.replace("never/app", "never/xyz")
    tellings = []
    for name in (image, absent):
        done = run_in_process("pull", name, *options, "--pull-policy", "Never", "-o", "json")
        assert done.returncode == 1
        (item,) = json.loads(done.stdout)["items"]
        tellings.append((json.dumps({**item, "seconds": 0}) + done.stderr).replace(absent, image))
    assert tellings[0] == tellings[1]
    assert "ErrImageNeverPull" in tellings[0]
    allowed = run_in_process("pull", image, *options, "--pull-policy", "Never", "--secret", secret)
    assert allowed.returncode == 0


def test_a_pull_that_is_killed_never_leaves_an_image_that_strangers_may_use(
    world: World, runtime: Runtime, tmp_path: Path
) -> None:
    """Killed at any point; after recovery the image is not there, must be verified, or has the right record.

    Each time another image, since a runtime may finish what a process that is dead has asked for.
    """
    secret = write_secret(tmp_path, "of-alice", world.host("basic"), "alice", USERS["alice"])
    chance = random.Random(7)  # noqa: S311 - no secret
    options = ["--secret", secret, *world.options("runtime", tmp_path)]
    interrupted = 0
    for number in range(KILLS):
        root = tmp_path / f"root-{number}"
        image = world.put("basic", f"killed/app{number}", build(*(noise(2_000_000) for _ in range(3))))
        own = credentials_of(image, secret_of(world, "alice"))
        with started_pull(image, "--root", str(root), *options) as process:
            kill_after_the_intent(process, root, chance.uniform(0, 0.3))
        interrupted += bool(intents_in(root))
        records = load_records(str(root))
        records.recover(runtime.list_images)
        check_safe(records, runtime, image, own)
        records.close()
        world.containerd.remove(image)
    assert interrupted
    done = run_in_process("pull", image, "--root", str(root), *options)
    assert done.returncode == 0, done.stderr
    assert intents_in(root) == []


@contextmanager
def started_pull(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A pull under way; killed at the end of the block, if it is still."""
    with subprocess.Popen(
        [sys.executable, "-m", "keyferry", "pull", *words],
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_after_the_intent(process: subprocess.Popen[bytes], root: Path, seconds: float) -> None:
    folder = root / "image_manager" / "pulling"
    wait_until(
        lambda: process.poll() is not None or (folder.exists() and any(folder.iterdir())),
        "a note of the pull",
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_safe(records: Records, runtime: Runtime, image: str, own: Sequence[Credential]) -> None:
    """A stranger must verify; so must the pod that pulled, unless there is a record of just its credential."""
    found = runtime.find_image(image)
    if found is None:
        return
    stranger = records.decide(image, found.id, ())
    assert stranger.must_pull, stranger.rule
    decision = records.decide(image, found.id, own)
    assert decision.must_pull or decision.rule == "same-credential"


WORST = """\
import os, signal, sys
from keyferry import Puller, PullOptions, PullSecret, load_records, open_target

class Dying:
    def __init__(self, target):
        self.target = target
    def __getattr__(self, name):
        return getattr(self.target, name)
    def pull_image(self, *words, **options):
        self.target.pull_image(*words, **options)
        os.kill(os.getpid(), signal.SIGKILL)

socket, image, root, auths = sys.argv[1:]
data = {".dockerconfigjson": auths.encode()}
secret = PullSecret(namespace="team", name="of-alice", type="kubernetes.io/dockerconfigjson", data=data, uid="u")
Puller(Dying(open_target(cri=socket)), records=load_records(root)).pull(image, PullOptions(pull_secrets=[secret]))
"""


def test_a_process_that_dies_between_pull_and_record_is_settled_by_the_next(
    world: World, runtime: Runtime, tmp_path: Path
) -> None:
    """The image is there without a record: the intent keeps strangers out, and recovery makes a record of nobody."""
    image = world.put("basic", "worst/app")
    auths = json.dumps({"auths": {world.host("basic"): {"username": "alice", "password": USERS["alice"]}}})
    process = run_python(WORST, str(world.containerd.socket), image, str(tmp_path), auths)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    found = runtime.find_image(image)
    assert found is not None
    assert (intents_in(tmp_path), records_in(tmp_path)) == ([image], {})
    assert load_records(str(tmp_path)).decide(image, found.id).rule == "no-record"
    options = ["--root", str(tmp_path), "--cri", str(world.containerd.socket)]
    shown = run_in_process("records", "recover", *options)
    assert (shown.returncode, intents_in(tmp_path)) == (1, [image])
    assert "nobody: access is verified" in shown.stdout
    assert run_in_process("records", "recover", *options, "--yes").returncode == 0
    assert (intents_in(tmp_path), records_in(tmp_path)) == ([], {found.id: {}})
    assert load_records(str(tmp_path)).decide(image, found.id).must_pull
    pruned = run_in_process("records", "prune", *options, "--until", "2100-01-01T00:00:00Z", "--yes")
    assert (pruned.returncode, list(records_in(tmp_path))) == (0, [found.id])
    world.containerd.remove(image)
    pruned = run_in_process("records", "prune", *options, "--until", "2100-01-01T00:00:00Z", "--yes")
    assert (pruned.returncode, records_in(tmp_path)) == (0, {}), pruned.stderr


def test_several_commands_at_once_lose_nothing_of_one_folder_of_records(world: World, tmp_path: Path) -> None:
    """Each brings its own credential for one image, and an image of its own; all is recorded, and no intent is left."""
    shared = world.put("basic", "at-once/shared")
    names = [f"pod{number}" for number in range(4)]
    with ExitStack() as stack:
        processes = []
        for name in names:
            own = world.put("basic", f"at-once/{name}")
            secret = write_secret(tmp_path, name, world.host("basic"), "alice", USERS["alice"])
            options = ["--root", str(tmp_path / "root"), "--pull-policy", "Always", "--secret", secret]
            options += ["--parallel", "2", *world.options("runtime", tmp_path)]
            processes.append(stack.enter_context(started_pull(shared, own, *options)))
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors.decode()
    recorded = {
        name: sorted(each["name"] for each in entry["kubernetesSecrets"])
        for mapping in records_in(tmp_path / "root").values()
        for name, entry in mapping.items()
    }
    host = world.host("basic")
    assert recorded == {
        f"{host}/at-once/shared": names,
        **{f"{host}/at-once/{name}": [name] for name in names},
    }
    assert intents_in(tmp_path / "root") == []


@pytest.mark.parametrize("where", TARGETS)
def test_one_image_is_one_call_that_can_be_awaited(world: World, tmp_path: Path, where: str) -> None:
    """For programs that want no more than that."""
    image = world.put("basic", f"door/{where}")
    cri, to = (str(world.containerd.socket), None) if where == "runtime" else ("", tmp_path / "layout")
    secrets = [secret_of(world, "alice")]
    pulled = asyncio.run(pull_async(image, PullOptions(pull_secrets=secrets), cri=cri, to=to))
    again = pull(image, PullOptions(pull_secrets=secrets), cri=cri, to=to)
    assert (pulled.action, again.action, again.image_ref) == ("pulled", "present", pulled.image_ref)


def test_what_is_missing_or_cannot_be_reached_is_told_apart(world: World, tmp_path: Path) -> None:
    """Not found, and a registry that is not there, are no refusals; nor is a plugin asked again for them."""
    host = world.host("basic")
    cases = {f"{host}/no/such:v1": "not-found", "127.0.0.1:1/team/app:v1": "unreachable"}
    for image, cause in cases.items():
        secret = pull_secret("s", image.partition("/")[0], "alice", USERS["alice"])
        with pytest.raises(ImagePullError) as caught:
            pull(image, PullOptions(pull_secrets=[secret]), cri=str(world.containerd.socket))
        assert caught.value.kind == cause
        done = run_in_process("pull", image, *world.options("runtime", tmp_path), "--secret",
                            write_secret(tmp_path, "s", image.partition("/")[0], "alice", USERS["alice"]))  # fmt: skip
        assert done.returncode == {"not-found": 1, "unreachable": 6}[cause]


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_interrupt_ends_it_at_once_and_the_pulls_stay_noted(
    world: World, tmp_path: Path, parallel: int
) -> None:
    """Nobody knows whether the runtime has finished them all the same."""
    root = tmp_path / "root"
    with silent_server() as port:
        images = [f"127.0.0.1:{port}/team/{name}:v1" for name in ("one", "two")]
        options = ["--root", str(root), "--parallel", str(parallel), *world.options("runtime", tmp_path)]
        with started_pull(*images, *options) as process:
            wait_until(lambda: len(intents_in(root)) == parallel, "the notes of the pulls")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 130, errors.decode()
    assert sorted(intents_in(root)) == images[:parallel]


def test_a_pull_that_takes_too_long_stays_noted(world: World, tmp_path: Path) -> None:
    """The wait is over for us; the runtime may go on."""
    with silent_server() as port:
        image = f"127.0.0.1:{port}/team/app:v1"
        options = ["--root", str(tmp_path), "--pull-timeout", "0.5", *world.options("runtime", tmp_path)]
        done = run_in_process("pull", image, *options)
    assert done.returncode == 124, done.stderr
    assert intents_in(tmp_path) == [image]


def test_explain_asks_the_runtime_and_the_records(world: World, node: Node, tmp_path: Path) -> None:
    """It says by which record and rule a pod may use the image that is there, and that another may not."""
    image = world.put("basic", "explained/app")
    config = plugin_of(world, node, "tls", "nobody", "x")
    root = ["--root", str(tmp_path / "root"), "--cri", f"unix://{world.containerd.socket}"]
    alice = write_secret(tmp_path, "of-alice", world.host("basic"), "alice", USERS["alice"])
    absent = run_in_process("pull", image, *config, *root, "--secret", alice)
    assert absent.returncode == 0, absent.stderr
    done = run_in_process("explain", image, *config, *root, "--secret", alice, "-o", "wide")
    expected = "the image is on the node, and this pod may use it without a pull: the pod has a credential"
    assert expected in done.stdout
    done = run_in_process("explain", image, *config, *root, *plain_pod(tmp_path), "-o", "json")
    access = json.loads(done.stdout)["access"]
    assert (access["mustPull"], access["rule"]) == (True, "stranger")
    done = run_in_process("explain", image, *config, *root, "-o", "json")
    assert json.loads(done.stdout)["access"]["outcome"] == "unknown"
    missing = run_in_process(
        "explain", f"{world.host('basic')}/explained/none:v1", *config, *root, "-o", "wide"
    )
    assert "the image must be pulled: the image is not on the node" in missing.stdout
