"""Cures are pasted as ``keyferry explain`` prints them, with the real kubectl: they mend, and destroy nothing."""

from __future__ import annotations

import base64
import json
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyferry.pulls.mirrors.endpoints import MirrorPlaces
from keyferry.pulls.mirrors.find import find_mirrors
from support.account_world import AUDIENCE, IMAGE, account_world, registry_of
from support.kube import TOKEN
from support.kubernetes_api import Json, account, pod, pull_secret
from support.pasting import Desk, has_all
from support.pod_world import HOST, PodWorld, pod_world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

EXPLAIN = "keyferry explain pod/web -n shop"
LOGIN = ("robot", "kf-marked-password")
OTHER = "other.example"
SPELLED = f"https://{HOST}/v2/"
LABELS = {"labels": {"app": "shop", "team": "payments"}, "annotations": {"owner": "payments"}}
VARIABLES = {"REGISTRY_USERNAME": LOGIN[0], "REGISTRY_PASSWORD": LOGIN[1], "VALUE": "puller"}
REFUSED = (
    'Failed to pull image "IMAGE": failed to pull and unpack image "IMAGE": failed to resolve reference "IMAGE": '
    "pulling from host HOST failed with status code [manifests v1]: 401 Unauthorized"
)
POD_KEY = ("", "pods", "shop", "web")
Change = Callable[[PodWorld], None]
Then = Callable[[PodWorld, list[str]], None]


# The situations.


def docker_config(**logins: str) -> str:
    """Return the content of a pull secret, in base64; hosts are spelled with ``_`` for dots and ``__`` for a colon."""
    auths = {
        host.replace("__", ":").replace("_", "."): {"auth": base64.b64encode(login.encode()).decode()}
        for host, login in logins.items()
    }
    return encoded({"auths": auths})


def encoded(content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return base64.b64encode(text.encode()).decode()


def secret(data: dict[str, str], name: str = "regcred", **more: Any) -> Json:
    """Return a pull secret that was applied, with labels."""
    made = pull_secret(name, data=data, **more)
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    metadata.update(deepcopy(LABELS))
    applied = json.dumps(made)
    metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = applied
    return made


def lists_secret(*names: str, image: str = IMAGE) -> Json:
    listed = [{"name": name} for name in names or ("regcred",)]
    return pod(images=(image,), imagePullSecrets=listed)


def wrong_password(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example="robot:old"), "note": encoded("kept")}
    world.api.add(lists_secret(), secret(data))


def wrong_password_of_many(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example="robot:old", other_example="bob:pw")}
    world.api.add(lists_secret(), secret({**data, "note": encoded("kept")}))


def entries(*keys: str, **more: Any) -> Change:
    """Return what makes a secret whose entries, one for each key, all have an old password."""

    def make(world: PodWorld) -> None:
        content = {"auths": {key: {"auth": encoded("robot:old")} for key in keys}}
        world.api.add(lists_secret(), secret({".dockerconfigjson": encoded(content)}, **more))

    return make


def old_type(host: str) -> Change:
    """Return what makes a secret of the type that has its entries at the top level."""

    def make(world: PodWorld) -> None:
        content = {host: {"auth": encoded("robot:old")}, OTHER: {"auth": encoded("bob:pw")}}
        data = {".dockercfg": encoded(content)}
        world.api.add(lists_secret(), secret(data, type="kubernetes.io/dockercfg"))

    return make


def listed_twice(world: PodWorld) -> None:
    wrong_password(world)
    world.api.add(lists_secret("regcred", "regcred"))


def absent(world: PodWorld) -> None:
    world.api.add(lists_secret())


def in_other_namespace(world: PodWorld) -> None:
    world.api.add(lists_secret(), pull_secret(namespace="default", login=":".join(LOGIN)))


def opaque(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example=":".join(LOGIN), other_example="bob:pw")}
    world.api.add(lists_secret(), secret(data, type="Opaque"))


def opaque_with_other_data(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example=":".join(LOGIN)), "key": encoded("kept")}
    world.api.add(lists_secret(), secret(data, type="Opaque"))


def opaque_and_not_json(world: PodWorld) -> None:
    world.api.add(lists_secret(), secret({".dockerconfigjson": encoded("robot:old")}, type="Opaque"))


def unreadable(world: PodWorld) -> None:
    content = {"auths": {HOST: {"auth": "robot:old"}, OTHER: {"auth": "Ym9iOnB3"}}}
    world.api.add(lists_secret(), secret({".dockerconfigjson": encoded(content), "note": encoded("kept")}))


def no_entries(world: PodWorld) -> None:
    world.api.add(lists_secret(), secret({".dockerconfigjson": encoded({"auths": {}})}))


def empty_login(world: PodWorld) -> None:
    world.api.add(lists_secret(), secret({".dockerconfigjson": encoded({"auths": {HOST: {}}})}))


def no_port(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example=":".join(LOGIN))}
    world.api.add(lists_secret(image=f"{HOST}:5000/team/app:v1"), secret(data))


def no_port_in_many(world: PodWorld) -> None:
    data = {".dockerconfigjson": docker_config(registry_example=":".join(LOGIN), other_example="bob:pw")}
    world.api.add(lists_secret(image=f"{HOST}:5000/team/app:v1"), secret(data))


def late(world: PodWorld) -> None:
    world.api.add(account(secrets=["regcred"]), pull_secret(login=":".join(LOGIN)))


def late_and_controlled(world: PodWorld) -> None:
    late(world)
    world.api.add(controlled_pod())


def controlled_pod(**spec: object) -> Json:
    made = pod(**spec)  # type: ignore[arg-type] # fields of the spec
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]  # type: ignore[index] # a map
    return made


def nothing(world: PodWorld) -> None:
    world.api.add(account(team="payments"))


def nothing_and_account_lists_another(world: PodWorld) -> None:
    other = pull_secret("other", host=OTHER)
    world.api.add(account(secrets=["other"]), other, lists_secret("other"))


def no_annotation(world: PodWorld) -> None:
    tokens = f"""\
  tokenAttributes:
    serviceAccountTokenAudience: {AUDIENCE}
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [{HOST}/role]
"""
    auth = json.dumps({HOST: {"username": LOGIN[0], "password": LOGIN[1]}})
    world.node.add("acme-registry", [HOST], auth, extra=tokens)
    world.api.add(account(team="payments"))


def replace_by_owner(world: PodWorld, _: list[str]) -> None:
    """Let the StatefulSet replace the pod, if it is gone, by one of the same name."""
    if POD_KEY not in world.api.objects:
        world.api.add(controlled_pod(imagePullSecrets=[{"name": "regcred"}]))


def list_by_hand(world: PodWorld, lines: list[str]) -> None:
    """Do what the text of the cure says: add the printed line to the list of the pod."""
    about: Any = world.api.objects[POD_KEY]
    about["spec"]["imagePullSecrets"] += yaml.safe_load(lines[-1])


def do_nothing(*_: object) -> None:
    """Nothing else is to be done."""


@dataclass(frozen=True)
class Case:
    """A situation: how it is made, what the lines need, what a user writes in the editor, and what happens then."""

    make: Change
    variables: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    then: Then = do_nothing


LOGIN_KEYS = (".dockerconfigjson", ".dockercfg")
LOGIN_VARIABLES = ("REGISTRY_USERNAME", "REGISTRY_PASSWORD")
CASES = {
    "wrong password": Case(wrong_password, ("REGISTRY_PASSWORD",)),
    "wrong password, several entries": Case(wrong_password_of_many, edited=(HOST,)),
    "wrong password, for all hosts of a domain": Case(entries("*.example"), ("REGISTRY_PASSWORD",)),
    "wrong password, for a path": Case(entries(f"{HOST}/team"), ("REGISTRY_PASSWORD",)),
    "wrong password, entries that both match": Case(entries(HOST, SPELLED), edited=(HOST, SPELLED)),
    "wrong password, key that does not parse": Case(entries(HOST, "bad key:x"), edited=(HOST,)),
    "wrong password, listed twice": Case(listed_twice, ("REGISTRY_PASSWORD",)),
    "wrong password, immutable": Case(entries(HOST, immutable=True), ("REGISTRY_PASSWORD",)),
    "wrong password, immutable, several entries": Case(entries(HOST, OTHER, immutable=True), edited=(HOST,)),
    "wrong password, old type": Case(old_type(HOST), edited=(HOST,)),
    "no port, old type": Case(old_type(f"{HOST}:5000"), edited=(HOST,)),
    "absent": Case(absent, LOGIN_VARIABLES),
    "in another namespace": Case(in_other_namespace, LOGIN_VARIABLES),
    "Opaque": Case(opaque),
    "Opaque, other data": Case(opaque_with_other_data, LOGIN_VARIABLES, then=list_by_hand),
    "Opaque, not JSON": Case(opaque_and_not_json, LOGIN_VARIABLES, then=list_by_hand),
    "cannot be read": Case(unreadable, LOGIN_VARIABLES),
    "no entries": Case(no_entries, LOGIN_VARIABLES),
    "empty login": Case(empty_login, LOGIN_VARIABLES),
    "no port": Case(no_port, edited=(f"{HOST}:5000",)),
    "no port, several entries": Case(no_port_in_many, edited=(f"{HOST}:5000",)),
    "pod older than the list": Case(late),
    "pod older than the list, controlled": Case(late_and_controlled, then=replace_by_owner),
    "nothing": Case(nothing, LOGIN_VARIABLES),
    "nothing, another secret": Case(nothing_and_account_lists_another, LOGIN_VARIABLES, then=list_by_hand),
    "no annotation": Case(no_annotation, ("VALUE",)),
}


@contextmanager
def world_of(case: Case, folder: Path) -> Iterator[tuple[PodWorld, Desk]]:
    """Yield the world of a case, in which the registry refused the kubelet, and a desk with all variables set."""
    with pod_world(folder) as world:
        world.is_in_process = True
        world.api.permit(TOKEN, "*", "*")
        case.make(world)
        world.answer = registry_of([LOGIN])
        add_refusal(world)
        names = ("HOME", "KUBECONFIG", "NO_PROXY")
        desk = Desk(folder / "desk", {name: world.env[name] for name in names})
        desk.env.update({name: VARIABLES[name] for name in case.variables})
        auth = encoded(":".join(LOGIN))
        desk.set_editor(sys.executable, {host: {"auth": auth} for host in case.edited})
        yield world, desk


def add_refusal(world: PodWorld) -> None:
    """Let the kubelet have been refused a minute ago."""
    about: Any = world.api.objects["", "pods", "shop", "web"]
    image = about["spec"]["containers"][0]["image"]
    world.add_event(REFUSED.replace("IMAGE", image).replace("HOST", image.partition("/")[0]))
    event: Any = world.api.objects["", "events", "shop", "web.1"]
    event["involvedObject"]["fieldPath"] = "spec.containers{app}"
    event["lastTimestamp"] = datetime.fromtimestamp(time.time() - 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def explain(world: PodWorld, options: str = "--check-registry --request-token") -> tuple[int, dict[str, Any]]:
    """Return the exit code of the command, and what it says of the pod's image."""
    done = world.run(f"{EXPLAIN} {options} -o json")
    assert done.stdout, done.stderr
    assert LOGIN[1] not in done.stdout + done.stderr
    explanation = json.loads(done.stdout)["pods"][0]["images"][0]["explanation"]
    assert isinstance(explanation, dict)
    return done.returncode, explanation


def lines_of(explanation: dict[str, Any]) -> list[str]:
    """Return the lines of all cures."""
    return [line for cure in explanation["cure"] for line in cure["lines"]]


def commands_of(lines: list[str]) -> list[str]:
    """Return the lines that change the cluster; the others are those of files, or ask again."""
    return [line for line in lines if not line.startswith(("- ", "keyferry "))]


@pytest.mark.parametrize(
    ("name", "one_by_one"),
    [*((name, True) for name in CASES), ("nothing", False), ("wrong password, several entries", False)],
)
def test_pasted_cures_mend(name: str, one_by_one: bool, tmp_path: Path) -> None:
    """Then the registry lets the pod's credential in; no secret lost a label, or data that is no login.

    A corrected secret has the entries that it had, no command is printed twice, and a second paste loses nothing.
    """
    with world_of(CASES[name], tmp_path) as (world, desk):
        code, explanation = explain(world)
        assert code, explanation["verdict"]
        before, lines = deepcopy(world.api.objects), lines_of(explanation)
        keys = keys_of(world) if name.startswith("wrong password") else None
        assert len(set(lines)) == len(lines)
        is_done = desk.paste(commands_of(lines), one_by_one=one_by_one)
        assert is_done, "\n".join(desk.pasted)
        assert keys is None or keys_of(world) == keys, desk.pasted[-1]
        CASES[name].then(world, lines)
        desk.check(before, world.api.objects)
        for key, then in before.items():
            if key[1] == "secrets":
                assert has_all(world.api.objects[key], without_login(then)), "\n".join(desk.pasted)
        code, explanation = explain(world)
        assert code == 0, (explanation["verdict"], *desk.pasted)
        desk.paste(commands_of(lines), one_by_one=True)
        CASES[name].then(world, lines)
        desk.check(before, world.api.objects)


def keys_of(world: PodWorld) -> list[str]:
    """Return the keys of the entries in the pull secret."""
    about: Any = world.api.objects["", "secrets", "shop", "regcred"]
    (content,) = (
        json.loads(base64.b64decode(about["data"][key])) for key in LOGIN_KEYS if key in about["data"]
    )
    return sorted(content.get("auths", content))


def without_login(secret: Any) -> Json:
    """Return a secret without what cures change: its docker config, and its type."""
    kept = {name: value for name, value in secret["data"].items() if name not in LOGIN_KEYS}
    return {"metadata": secret["metadata"], "data": kept}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.variables])
def test_without_a_variable_nothing_changes(name: str, tmp_path: Path) -> None:
    """The first command fails, which needs it."""
    with world_of(CASES[name], tmp_path) as (world, desk):
        _, explanation = explain(world)
        before, whole = deepcopy(world.api.objects), dict(desk.env)
        for variable in CASES[name].variables:
            rest = {each: value for each, value in whole.items() if each != variable}
            for env in ({**rest, variable: ""}, rest):
                desk.env = env
                assert not desk.paste(commands_of(lines_of(explanation))[:1], one_by_one=True)
                assert world.api.objects == before
        desk.check(before, world.api.objects)


@pytest.mark.parametrize("name", CASES)
def test_when_a_write_fails_nothing_is_lost(name: str, tmp_path: Path) -> None:
    """Whichever it is; what is gone then is in a file, with which it can be created again."""
    with world_of(CASES[name], tmp_path) as (world, desk):
        _, explanation = explain(world)
        before, store = deepcopy(world.api.objects), world.api.store
        lines, done = lines_of(explanation), 0
        for number, code in ((1, 403), (2, 500), (3, 403)):
            store.fail_from, store.fail_code = number, code
            store.done.clear()
            desk.paste(commands_of(lines), one_by_one=True)
            store.fail_from, done = 0, len(store.done)
            CASES[name].then(world, lines)
            desk.check(before, world.api.objects)
            restore(world, desk, before)
            if done < number:
                break
        assert done


def restore(world: PodWorld, desk: Desk, before: Any) -> None:
    """Create what is gone from the files that are left, check it, then let all be as it was."""
    for key, then in before.items():
        if key not in world.api.objects:
            (name,) = (path.name for path in desk.files if path.name.startswith(f"{key[3]}-saved."))
            assert desk.paste([f"kubectl create -f {name}"], one_by_one=True), desk.pasted[-1]
            assert has_all(world.api.objects[key], then)
    world.api.objects.clear()
    world.api.objects.update(deepcopy(before))
    for path in desk.files:
        path.unlink()


@pytest.mark.parametrize("failure", ["get", "create"])
def test_when_a_read_fails_nothing_is_lost(failure: str, tmp_path: Path) -> None:
    """The secret cannot be saved, or what was edited cannot be read: nothing is written."""
    with world_of(CASES["wrong password, several entries"], tmp_path) as (world, desk):
        _, explanation = explain(world)
        before = deepcopy(world.api.objects)
        if failure == "get":
            world.api.users[TOKEN].permitted.clear()
        else:
            desk.env["EDITOR"] = "rm"
        desk.paste(lines_of(explanation), one_by_one=True)
        assert all(has_all(world.api.objects[key], then) for key, then in before.items()), desk.pasted[-1]


def test_a_list_that_the_account_got_since_is_kept(tmp_path: Path) -> None:
    with world_of(CASES["nothing"], tmp_path) as (world, desk):
        _, explanation = explain(world)
        world.api.add(account(secrets=["other"], team="payments"))
        before = deepcopy(world.api.objects)
        assert not desk.paste(commands_of(lines_of(explanation)), one_by_one=True)
        desk.check(before, world.api.objects)


@pytest.mark.parametrize("listed", [(), ("other",)], ids=["no list", "a list"])
def test_an_account_that_is_not_known_gets_the_secret_beside_its_others(
    listed: tuple[str, ...], tmp_path: Path
) -> None:
    """As for a pod in a file."""
    with world_of(CASES["nothing"], tmp_path) as (world, desk):
        world.api.add(account(secrets=listed))
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(world.api.objects[POD_KEY]))
        done = world.run(f"keyferry explain {IMAGE} -f {file} -o json")
        lines = [line for line in lines_of(json.loads(done.stdout)) if "kubectl patch" in line]
        assert lines
        assert desk.paste(lines, one_by_one=True), (done.stdout, *desk.pasted)
        now: Any = world.api.objects["", "serviceaccounts", "shop", "default"]
        assert [each["name"] for each in now["imagePullSecrets"]] == [*listed, "regcred"]


@pytest.mark.parametrize("make", [nothing, wrong_password, absent, late])
def test_a_static_pod_gets_a_credential_of_its_node(make: Change, tmp_path: Path) -> None:
    """No secret and no change of the copy that the API server has of it reaches its kubelet."""

    def make_static(world: PodWorld) -> None:
        make(world)
        about: Any = world.api.objects[POD_KEY]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "n", "controller": True}
        about["metadata"] |= {
            "annotations": {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"},
            "ownerReferences": [owner],
        }

    with world_of(Case(make_static), tmp_path) as (world, _):
        code, explanation = explain(world)
        assert code
        assert commands_of(lines_of(explanation)) == []
        assert "give its node a credential" in explanation["cure"][0]["text"]


def test_a_secret_that_is_listed_twice_is_one_credential(tmp_path: Path) -> None:
    with world_of(Case(listed_twice), tmp_path) as (world, _):
        for options in ("", "--check-registry"):
            _, explanation = explain(world, options)
            assert "2 credentials" not in explanation["verdict"]["text"]


# Lines of files, and objects.


def test_the_pattern_with_the_port_is_added_to_the_config(tmp_path: Path) -> None:
    with pod_world(tmp_path) as world:
        image = f"{HOST}:5000"
        world.api.add(pod(images=(f"{image}/team/app:v1",)))
        world.node.add(
            "acme-registry", [HOST], json.dumps({image: {"username": LOGIN[0], "password": LOGIN[1]}})
        )
        _, explanation = explain(world, "")
        (line,) = lines_of(explanation)
        text = world.node.config.read_text()
        world.node.config.write_text(text.replace(f'matchImages: ["{HOST}"]', f"matchImages:\n  {line}"))
        code, explanation = explain(world, "")
        assert code == 0, explanation["verdict"]


UNTRUSTED = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


def test_the_lines_for_an_unknown_authority_are_read_by_containerd(tmp_path: Path) -> None:
    """They name the file with the authority, in the folder that is named, and no mirror."""
    with pod_world(tmp_path) as world:
        add_refusal(world)
        event: Any = world.api.objects["", "events", "shop", "web.1"]
        request = f'failed to do request: Head "https://{HOST}/v2/team/app/manifests/v1": {UNTRUSTED}'
        event["message"] = event["message"].partition("pulling from host")[0] + request
        _, explanation = explain(world, "")
        (cure,) = explanation["cure"]
        folder = f"/etc/containerd/certs.d/{HOST}"
        assert f"{folder}/hosts.toml" in cure["text"]
        assert f"{folder}/ca.crt" in cure["text"]
        hosts = tmp_path / "certs.d" / HOST
        hosts.mkdir(parents=True)
        text = "\n".join(cure["lines"])
        (hosts / "hosts.toml").write_text(text)
        assert tomllib.loads(text) == {"host": {f"https://{HOST}": {"ca": f"{folder}/ca.crt"}}}
        assert find_mirrors(IMAGE, MirrorPlaces(hosts_dir=str(hosts.parent))) is None


def test_what_permits_kubelets_an_audience_takes_no_other_away(tmp_path: Path) -> None:
    """The objects of one team, then those of another."""
    with account_world(tmp_path) as world:
        world.api.permit(TOKEN, "*", "*")
        world.api.node_audiences = set()
        world.api.add(account("other"))
        desk = Desk(tmp_path / "desk", {"HOME": str(tmp_path), "KUBECONFIG": str(world.kube.path)})
        wanted = [("puller", "team-a.example"), ("other", "team-b.example"), ("other", "team-a.example")]
        for name, audience in wanted:
            world.attributes["serviceAccountTokenAudience"] = audience
            done = world.run(IMAGE, "-o", "json", name=f"shop/{name}")
            (link,) = (each for each in json.loads(done.stdout)["links"] if each["manifests"])
            text = yaml.safe_dump_all(link["manifests"])
            assert desk.paste([f"kubectl apply -f - <<'END'\n{text}\nEND"], one_by_one=True), desk.pasted[-1]
        roles: list[Any] = [
            document for key, document in world.api.objects.items() if key[1] == "clusterroles"
        ]
        rules = [rule for role in roles for rule in role["rules"]]
        assert [(each["resourceNames"][0], each["resources"][0]) for each in rules] == wanted
        bound = {key[3] for key in world.api.objects if key[1] == "clusterrolebindings"}
        assert bound == {role["metadata"]["name"] for role in roles}
