"""Who may use an image that is on the node."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from keyferry import (
    Credential,
    Decision,
    Node,
    PodCredentials,
    Puller,
    PullOptions,
    Source,
    SourceKind,
    VerificationPolicy,
    load_records,
)
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePullSecret
from keyferry.errors import EnvironmentProblem, Kind, PolicyError, RecordError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.keyring import SecretRef, ServiceAccountRef
from keyferry.pulls.kubelet_guard import check_root, check_runtime
from keyferry.pulls.records.access import (
    Change,
    ImageUse,
    NodeImages,
    PolicyEffect,
    UseOutcome,
    judge_use,
    parse_crictl_images,
)
from keyferry.pulls.records.decide import Situation, credentials_used, decide, pod_credentials
from keyferry.pulls.records.policy import ALLOWLISTED, ALWAYS, NEVER
from keyferry.pulls.records.records import inspect_records
from keyferry.pulls.records.store import RecordLookup
from support.kubelets import Processes, listening, write_config
from support.parts import root as as_root
from support.pulling import FakeTarget, pull_secret, records_in
from support.records import EVERYBODY, HASH, IMAGE, REF, Present, account, plant, record, secret, with_secrets
from support.unix_sockets import bind, short_address

VERIFY_ALL = VerificationPolicy("AlwaysVerify")
NOTHING = PodCredentials()
BROKEN = RecordLookup(problem=RecordError("/f", "damaged", kind=Kind.SYNTAX))
FOREIGN = RecordLookup(problem=RecordError("/f", "of another", kind=Kind.FOREIGN))


def never() -> PodCredentials:
    raise AssertionError("nobody asks the pod")


def ask(
    entry: ImagePullCredentials | None = None,
    shown: PodCredentials | Callable[[], PodCredentials] = NOTHING,
    lookup: RecordLookup | None = None,
    image: str = IMAGE,
    policy: VerificationPolicy = VERIFY_ALL,
) -> Decision:
    found = RecordLookup(record=record(entry=entry)) if entry is not None else lookup or RecordLookup()
    get = shown if callable(shown) else lambda: shown
    return decide(Situation(image=image, image_ref=REF, lookup=found), policy, get)


@pytest.mark.parametrize(
    ("decision", "rule", "must_pull"),
    [
        (decide(Situation(image=IMAGE, image_ref=""), VERIFY_ALL, never), "absent", True),
        (ask(lookup=BROKEN, shown=never), "unreadable", True),
        (ask(lookup=BROKEN, shown=never, policy=VerificationPolicy("NeverVerify")), "unreadable", True),
        (ask(EVERYBODY, never, policy=VerificationPolicy("NeverVerify")), "policy", False),
        (ask(lookup=FOREIGN, shown=never), "no-record", True),
        (ask(shown=never), "no-record", True),
        (ask(EVERYBODY, never, image="Not A Name"), "bad-name", True),
        (ask(EVERYBODY, never, image="busybox"), "other-name", True),
        (ask(EVERYBODY, never), "everybody", False),
        (ask(ImagePullCredentials(), never), "nobody", True),
        (ask(with_secrets(secret()), PodCredentials(secrets=(secret("other"),))), "same-credential", False),
        (ask(with_secrets(secret()), PodCredentials(secrets=(secret("s1", "new"),))), "same-secret", False),
        (
            ask(
                ImagePullCredentials(kubernetes_secrets=(), kubernetes_service_accounts=(account(),)),
                PodCredentials(secrets=(), service_account=account()),
            ),
            "same-account",
            False,
        ),
        (
            ask(
                with_secrets(secret()), PodCredentials(secrets=(secret("x", "y"),), service_account=account())
            ),
            "stranger",
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_decision_follows_its_rule(decision: Decision, rule: str, must_pull: bool) -> None:
    """Each rule decides as the kubelet does, and says so in words."""
    assert (decision.rule, decision.must_pull) == (rule, must_pull)
    last = decision.reasons[-1]
    assert last.outcome == ("pull" if must_pull else "use")
    assert last.facts["rule"] == rule
    assert HASH not in repr(decision.reasons) + repr(decision)


def test_an_error_of_the_pod_is_part_of_the_decision() -> None:
    """Credentials that cannot be found out make it a pull, and the error goes along."""
    error = EnvironmentProblem("no keyring")

    def fail() -> PodCredentials:
        raise error

    decision = ask(with_secrets(secret()), fail)
    assert (decision.must_pull, decision.rule, decision.error) == (True, "no-credentials", error)


@pytest.mark.parametrize(
    ("shown", "is_added"),
    [
        pytest.param(secret(), False, id="the recorded one"),
        pytest.param(secret("copy"), True, id="a copy with another name"),
        pytest.param(secret("s1", "new"), True, id="the same with a new password"),
        pytest.param(secret("s2"), False, id="recorded, after one with the same credential"),
    ],
)
def test_a_secret_is_added_to_the_record_if_it_is_new(shown: ImagePullSecret, is_added: bool) -> None:
    """So that the next pod with it is not compared with what has been replaced; nothing is written twice."""
    decision = ask(with_secrets(secret(), secret("s2")), PodCredentials(secrets=(shown,)))
    assert not decision.must_pull
    assert decision.addition == (with_secrets(shown) if is_added else None)


@pytest.mark.parametrize(
    ("shown", "is_told"),
    [
        pytest.param(secret("copy"), True, id="a copy with another name"),
        pytest.param(secret("s1", uid="another"), True, id="a new secret of the same name"),
        pytest.param(secret("s2"), False, id="recorded, after one with the same credential"),
        pytest.param(
            ImagePullSecret(uid="", namespace="ns", name="s2", credential_hash=HASH),
            False,
            id="from a file without a uid",
        ),
        pytest.param(secret("s1", "new"), False, id="the same with a new password"),
    ],
)
def test_only_a_secret_that_is_not_recorded_is_told_to_be_added(
    shown: ImagePullSecret, is_told: bool
) -> None:
    decision = ask(with_secrets(secret("s1"), secret("s2")), PodCredentials(secrets=(shown,)))
    (text,) = (reason.text for reason in decision.reasons if reason.stage == "credential")
    assert ("is added to the record" in text) is is_told


def credential(*, secret_ref: SecretRef | None = None, owner: ServiceAccountRef | None = None) -> Credential:
    return Credential(
        username="u",
        password="p",
        source=Source(kind=SourceKind.PROVIDER, name="", secret=secret_ref, service_account=owner),
        key="reg.example",
    )


def test_what_is_recorded_depends_on_the_source() -> None:
    """A secret and an account are named; anonymous and node-wide credentials let everybody in."""
    ref, owner = (
        SecretRef(namespace="ns", name="s", uid="uid"),
        ServiceAccountRef(namespace="ns", name="a", uid="uid"),
    )
    used = credentials_used(credential(secret_ref=ref))
    assert used.kubernetes_secrets[0].credential_hash == credential().hash
    assert credentials_used(credential(owner=owner)).kubernetes_service_accounts[0].name == "a"
    assert credentials_used(credential()) == credentials_used(None) == EVERYBODY


def test_of_several_accounts_the_first_counts() -> None:
    """As in the kubelet, only the first credential of an account is looked at."""
    owners = [credential(owner=ServiceAccountRef(namespace="ns", name=name, uid="uid")) for name in "ab"]
    shown = pod_credentials(owners)
    assert shown.service_account is not None
    assert shown.service_account.name == "a"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "it is empty"),
        ("/*", "expected a registry before"),
        ("*", "allowed only as the last path segment"),
        ("reg.io/*/a", "allowed only as the last path segment"),
        ("reg.io/a*", "allowed only as the last path segment"),
        ("reg.io/*/*", "allowed only as the last path segment"),
        (" a", "it has white space around it"),
        ("a:1", "a tag or digest is not allowed; write 'a'"),
        ("reg.io/A b", "allowlist pattern 'reg.io/A b'"),
    ],
)
def test_a_bad_pattern_is_refused(pattern: str, why: str) -> None:
    """One bad pattern refuses the whole list."""
    with pytest.raises(PolicyError, match=why):
        VerificationPolicy(ALLOWLISTED, ["reg.io/*", pattern])


POD, SECRET = MissingInput(input=LookupInput.POD), MissingInput(input=LookupInput.PULL_SECRET, name="s1")
ACCOUNT, TOKEN = (
    MissingInput(input=LookupInput.SERVICE_ACCOUNT, name="ns/a1"),
    MissingInput(input=LookupInput.SERVICE_ACCOUNT_TOKEN, name="ns/a1"),
)
OTHER = MissingInput(input=LookupInput.SERVICE_ACCOUNT, name="ns/a2")
IMAGES = MissingInput(input=LookupInput.IMAGES, name=IMAGE)
OF_SECRET, OF_ACCOUNT = (
    with_secrets(secret("s1")),
    ImagePullCredentials(kubernetes_secrets=(), kubernetes_service_accounts=(account(),)),
)


def decided(entry: ImagePullCredentials, policy: str = ALWAYS) -> Decision:
    situation = Situation(image=IMAGE, image_ref=REF, lookup=RecordLookup(record=record(entry=entry)))
    return decide(situation, VerificationPolicy(policy), PodCredentials)


@pytest.mark.parametrize(
    ("decision", "missing", "outcome"),
    [
        pytest.param(decided(OF_SECRET), (), UseOutcome.PULL, id="nothing missing"),
        pytest.param(decided(OF_SECRET), (POD,), UseOutcome.UNKNOWN, id="pod"),
        pytest.param(decided(OF_SECRET), (SECRET,), UseOutcome.UNKNOWN, id="secret"),
        pytest.param(decided(OF_ACCOUNT), (SECRET,), UseOutcome.PULL, id="secret, of an account"),
        pytest.param(decided(OF_ACCOUNT), (ACCOUNT,), UseOutcome.UNKNOWN, id="account"),
        pytest.param(decided(OF_ACCOUNT), (TOKEN,), UseOutcome.UNKNOWN, id="token"),
        pytest.param(decided(OF_ACCOUNT), (OTHER,), UseOutcome.PULL, id="another account"),
        pytest.param(decided(OF_SECRET, NEVER), (POD, SECRET), UseOutcome.USE, id="policy"),
        pytest.param(decided(OF_SECRET, NEVER), (IMAGES,), UseOutcome.UNKNOWN, id="perhaps not there"),
        pytest.param(decided(OF_SECRET), (IMAGES,), UseOutcome.PULL, id="pulled either way"),
    ],
)
def test_a_decision_stands_only_if_nothing_that_is_missing_can_turn_it(
    decision: Decision, missing: tuple[MissingInput, ...], outcome: UseOutcome
) -> None:
    assert judge_use(decision, missing) is outcome


@pytest.mark.parametrize(
    ("before", "after", "missing", "effect"),
    [
        pytest.param(ALWAYS, ALWAYS, (), PolicyEffect.SAME, id="no change"),
        pytest.param(ALWAYS, NEVER, (), PolicyEffect.FREE, id="no longer verified"),
        pytest.param(NEVER, ALWAYS, (), PolicyEffect.VERIFIED, id="verified from now on"),
        pytest.param(NEVER, ALWAYS, (POD,), PolicyEffect.UNKNOWN, id="perhaps verified"),
        pytest.param(ALWAYS, NEVER, (POD,), PolicyEffect.UNKNOWN, id="perhaps no longer"),
        pytest.param(ALWAYS, ALWAYS, (POD,), PolicyEffect.SAME, id="unknown twice by one rule"),
        pytest.param(ALWAYS, NEVER, (POD, IMAGES), PolicyEffect.UNKNOWN, id="unknown by two rules"),
    ],
)
def test_the_effect_of_another_policy(
    before: str, after: str, missing: tuple[MissingInput, ...], effect: PolicyEffect
) -> None:
    """Two decisions that nobody can make are the same only if one input would make both."""
    change = Change(
        use=ImageUse(pod="pod", image=IMAGE),
        image_ref=REF,
        before=decided(OF_SECRET, before),
        after=decided(OF_SECRET, after),
        missing=missing,
    )
    assert change.effect is effect


LIST = (
    b'{"images":[{"id":"sha256:1","repoTags":["docker.io/library/busybox:1"],"repoDigests":[],"size":"5"}]}'
)
DIGEST = "sha256:" + "0" * 64


def test_an_image_of_the_runtime_is_found_by_what_its_name_means() -> None:
    """The runtime's names are in full, tag included, and a pod's need not be; with a digest a tag says nothing."""
    images = NodeImages([record("latest")], parse_crictl_images(LIST, "f"))
    assert images.find("busybox:1") == images.find("sha256:1") == "sha256:1"
    assert images.find("busybox") == ""
    images = NodeImages([], [Present(id="id", digests=(f"reg.example/x@{DIGEST}",))])
    assert images.find(f"reg.example/x:9@{DIGEST}") == "id"
    # Without a list, the latest record of the name counts.
    assert NodeImages([record("a"), record("b")]).find("reg.example/team/app:v7") == "b"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"images":{}}', b'{"images":[{}]}', b'{"images":[{"id":"a","repoTags":[1]}]}']
)
def test_another_document_is_refused(data: bytes) -> None:
    """What crictl would not print is an error that says what is expected."""
    with pytest.raises(EnvironmentProblem, match=r"^f: "):
        parse_crictl_images(data, "f")


NOBODY = 65534
CONTAINER = "pid:[4026532198]"
LOGIN = ("alice", "kf-word")
PRIVATE = pull_secret("s", "reg.example", *LOGIN)


def refusal(check: Callable[[], object]) -> str:
    """What is said; empty if nothing is refused."""
    try:
        check()
    except EnvironmentProblem as error:
        return str(error)
    return ""


def root_refusal(root: Path, processes: Processes, *, no_kubelet: bool = False) -> str:
    """What is said to whoever writes records below a root."""
    return refusal(lambda: check_root(str(root), Node(str(processes)), no_kubelet=no_kubelet))


def runtime_refusal(socket: Path, processes: Processes, *, no_kubelet: bool = False) -> str:
    """What is said to whoever brings a private image to a runtime."""
    return refusal(lambda: check_runtime(str(socket), Node(str(processes)), no_kubelet=no_kubelet))


def kubelets_root(folder: Path) -> Path:
    """A folder in which a kubelet has been at work."""
    for name in ("pods", "plugins", "plugins_registry", "pod-resources"):
        (folder / name).mkdir(parents=True)
    return folder


def test_without_a_kubelet_nothing_is_refused(processes: Processes, tmp_path: Path) -> None:
    """A laptop, or a node whose kubelet is stopped; sockets that are left are nobody's."""
    root = kubelets_root(tmp_path / "root")
    with listening(root / "pod-resources" / "kubelet.sock"):
        pass
    assert (root / "pod-resources" / "kubelet.sock").is_socket()
    assert root_refusal(root, processes) == ""
    assert runtime_refusal(tmp_path / "runtime.sock", processes) == ""


@pytest.mark.parametrize("spelling", ["root", "root/", "link", "./root/../root"])
def test_the_root_of_a_running_kubelet_is_refused(
    processes: Processes, tmp_path: Path, spelling: str
) -> None:
    """However it is written, and whatever is said; any other root is not."""
    root = kubelets_root(tmp_path / "root")
    (tmp_path / "link").symlink_to(root)
    with processes.kubelet(f"--root-dir={root}") as pid:
        for told in (False, True):
            said = root_refusal(tmp_path / spelling, processes, no_kubelet=told)
            assert f"is the root of a kubelet (process {pid})" in said
            assert "stop it first" in said
        assert root_refusal(tmp_path / "other", processes) == ""


@pytest.mark.parametrize("name", ["pod-resources/kubelet.sock", "device-plugins/kubelet.sock"])
def test_a_kubelet_is_found_by_its_socket(processes: Processes, tmp_path: Path, name: str) -> None:
    """Also from a container that sees none of its processes."""
    root = kubelets_root(tmp_path / "root")
    processes.set_namespace(CONTAINER)
    with listening(root / name) as path:
        assert f"a kubelet that listens at {path}" in root_refusal(root, processes, no_kubelet=True)


def test_a_socket_is_found_below_a_long_path_and_with_many_waiting(
    processes: Processes, tmp_path: Path
) -> None:
    """An address of the system's holds about a hundred bytes; and nobody waits in a queue that is full."""
    root = kubelets_root(tmp_path / ("long" * 40))
    with listening(root / "pod-resources" / "kubelet.sock"):
        assert "a kubelet that listens" in root_refusal(root, processes)
    path = tmp_path / "pod-resources" / "kubelet.sock"
    path.parent.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        bind(server, path)
        server.listen(0)
        address = stack.enter_context(short_address(path))
        errors = [0]
        while errors[-1] == 0:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            errors.append(client.connect_ex(address))
        assert errors[-1] == errno.EAGAIN
        assert "a kubelet that listens" in root_refusal(tmp_path, processes)


@pytest.mark.parametrize("hide", ["container", "hidepid"])
def test_where_processes_are_hidden_a_kubelets_root_is_refused_unless_told(
    processes: Processes, tmp_path: Path, hide: str
) -> None:
    """A folder in which no kubelet has been at work is nobody's, and is not concerned."""
    if hide == "container":
        processes.set_namespace(CONTAINER)
    else:
        processes.hide()
    root = kubelets_root(tmp_path / "root")
    said = root_refusal(root, processes)
    assert "cannot tell whether a kubelet uses the root" in said
    assert "--no-kubelet" in said
    assert root_refusal(root, processes, no_kubelet=True) == ""
    assert root_refusal(tmp_path / "own", processes) == ""
    (tmp_path / "own").mkdir()
    assert root_refusal(tmp_path / "own", processes) == ""


def test_the_runtime_of_a_running_kubelet_is_refused(processes: Processes, tmp_path: Path) -> None:
    """By its flag, its config file, or as its image service; a runtime that it does not use is free."""
    socket, other = tmp_path / "runtime.sock", tmp_path / "other.sock"
    config = write_config(tmp_path / "kubelet.yaml", imageServiceEndpoint=f"unix://{socket}")
    with listening(socket), listening(other):
        for flags in (
            [f"--container-runtime-endpoint=unix://{socket}"],
            [f"--container-runtime-endpoint={socket}"],
            [f"--container-runtime-endpoint=unix://{other}", f"--config={config}"],
        ):
            with processes.kubelet(*flags) as pid:
                for told in (False, True):
                    said = runtime_refusal(socket, processes, no_kubelet=told)
                    assert f"a kubelet (process {pid}) uses the container runtime at {socket}" in said
                    assert "--preload" in said
        with processes.kubelet(f"--container-runtime-endpoint=unix://{other}"):
            assert runtime_refusal(socket, processes) == ""
        with processes.kubelet("--container-runtime-endpoint=tcp://127.0.0.1:1"):
            assert runtime_refusal(socket, processes) == ""
            # Images in a folder are used by no pod.
            there = FakeTarget(logins={LOGIN})
            assert Puller(there).pull(IMAGE, PullOptions(pull_secrets=[PRIVATE])).action == "pulled"


def test_a_kubelet_in_a_container_has_files_of_its_own(processes: Processes, tmp_path: Path) -> None:
    """The same name means another runtime and another root there, as on a laptop with kind."""
    other = tmp_path / "other"
    socket, root = tmp_path / "runtime.sock", kubelets_root(tmp_path / "root")
    home = processes.write(17, "kubelet", f"--container-runtime-endpoint={socket}", f"--root-dir={root}")
    (home / "root").symlink_to(other)
    kubelets_root(other / str(root).lstrip("/"))
    with listening(socket), listening(other / str(socket).lstrip("/")) as inner:
        assert runtime_refusal(socket, processes) == ""
        assert root_refusal(root, processes) == ""
        assert "process 17" in runtime_refusal(inner, processes)
        assert "process 17" in root_refusal(other / str(root).lstrip("/"), processes)


def test_a_kubelet_whose_runtime_is_not_known_may_use_any(processes: Processes, tmp_path: Path) -> None:
    """Its config file cannot be read, or its program has no default."""
    socket = tmp_path / "runtime.sock"
    with listening(socket):
        with processes.kubelet(f"--config={tmp_path / 'gone'}"):
            assert "uses the container runtime" in runtime_refusal(socket, processes)
        processes.write(17, "kubelite")
        assert "uses the container runtime" in runtime_refusal(socket, processes)


def test_where_processes_are_hidden_a_runtime_is_refused_unless_it_is_seen_itself(
    processes: Processes, tmp_path: Path
) -> None:
    """In a container, a runtime of the same container has its kubelet there; with hidepid nothing is known."""
    socket = tmp_path / "runtime.sock"
    with listening(socket):
        processes.set_namespace(CONTAINER)
        assert runtime_refusal(socket, processes) == ""
        assert "cannot tell" in runtime_refusal(tmp_path / "nobody.sock", processes)
        processes.hide()
        said = runtime_refusal(socket, processes)
        assert "cannot tell" in said
        assert "--preload" in said
        assert "--no-kubelet" in said
        assert runtime_refusal(socket, processes, no_kubelet=True) == ""


@as_root
def test_another_users_process_keeps_nobody_from_anything(processes: Processes, tmp_path: Path) -> None:
    """Anyone can call a process kubelet; it counts for what its user owns, and for nothing else."""
    root, theirs = kubelets_root(tmp_path / "root"), kubelets_root(tmp_path / "theirs")
    os.chown(theirs, NOBODY, NOBODY)
    socket = tmp_path / "runtime.sock"
    with listening(socket), processes.kubelet(f"--root-dir={root}", user=NOBODY):
        assert root_refusal(root, processes) == ""
        assert runtime_refusal(socket, processes) == ""
    with processes.kubelet(f"--root-dir={theirs}", user=NOBODY) as pid:
        assert f"process {pid}" in root_refusal(theirs, processes)
        with listening(tmp_path / "their.sock", NOBODY) as path:
            assert f"process {pid}" in runtime_refusal(path, processes)


def test_a_puller_does_not_bring_a_private_image_to_a_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Nothing is asked of the runtime, nothing recorded; without a credential, or if told, it is pulled."""
    socket, root = tmp_path / "runtime.sock", tmp_path / "root"
    there = FakeTarget(logins={LOGIN, ("", "")}, runtime_socket=str(socket))
    with listening(socket), processes.kubelet(f"--container-runtime-endpoint=unix://{socket}"):
        records = load_records(str(root))
        puller = Puller(there, records=records)
        with pytest.raises(EnvironmentProblem, match="--preload"):
            puller.pull(IMAGE, PullOptions(pull_secrets=[PRIVATE]))
        assert (there.asked, records_in(root)) == ([], {})
        assert puller.pull("reg.example/public:v1").action == "pulled"
        told = Puller(there, preload=True).pull(IMAGE, PullOptions(pull_secrets=[PRIVATE]))
        assert told.used is not None
    assert puller.pull(IMAGE, PullOptions(pull_secrets=[PRIVATE], pull_policy="Always")).action == "pulled"


def test_records_of_a_running_kubelet_are_not_opened_to_write(processes: Processes, tmp_path: Path) -> None:
    """Not even its folders are made; reading is free."""
    with processes.kubelet(f"--root-dir={tmp_path / 'root'}"):
        with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
            load_records(str(tmp_path / "root"))
        assert not (tmp_path / "root").exists()
        plant(tmp_path / "root")
        records = inspect_records(str(tmp_path / "root"), read_only=False)
        assert len(records.list().values) == 1
        assert records.prune([], dry_run=True).removed
        reader = load_records(str(tmp_path / "root"), policy="AlwaysVerify", read_only=True)
        assert reader.decide(IMAGE, REF).rule == "everybody"
        with pytest.raises(RecordError, match="for reading only"):
            reader.record_intent(IMAGE)
        for write in (lambda: records.prune([]), lambda: records.recover(lambda: [Present(id=REF)])):
            with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
                write()
        assert len(records.list().values) == 1


def test_a_kubelet_that_starts_later_is_noticed_before_the_next_pull(
    processes: Processes, tmp_path: Path
) -> None:
    """A pull that was begun is recorded to its end."""
    records = load_records(str(tmp_path))
    records.record_intent(IMAGE)
    with processes.kubelet(f"--root-dir={tmp_path}"):
        records.record_pulled(IMAGE, REF, None)
        assert REF in records_in(tmp_path)
        with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
            records.record_intent(IMAGE)
    records.record_intent(IMAGE)
