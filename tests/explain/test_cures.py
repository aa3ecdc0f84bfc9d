"""The likely cause if no credential is found or the registry refuses it, and its cure: nothing of others is lost.

Each command is run with the real kubectl in ``tests/e2e/test_cures_pasted.py``.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Node
from support.kubernetes_api import Json, account, pull_secret
from support.pod_files import cures_of, explain_file, lines_of
from support.pod_world import HOST
from support.pull_reports import aged, failed, unauthorized
from support.situations import AUTH, IMAGE, web

PORT_IMAGE = IMAGE.replace(HOST, f"{HOST}:5000")
LOGIN = {"username": "bob", "password": "kf-marked-password"}
RECREATE = (
    'saved=$(mktemp web-saved.XXXXXX) && kubectl get pod web -n shop -o yaml > "$saved" && '
    'kubectl replace --force -f "$saved"'
)
SAVE = 'saved=$(mktemp regcred-saved.XXXXXX) && kubectl get secret regcred -n shop -o yaml > "$saved"'


def secret(content: object, name: str = "regcred", key: str = ".dockerconfigjson", **more: Any) -> Json:
    """Return a pull secret with this content."""
    text = content if isinstance(content, str) else json.dumps(content)
    return aged(pull_secret(name, data={key: base64.b64encode(text.encode()).decode()}, **more))


def secret_for(*hosts: str, **more: Any) -> Json:
    """Return a pull secret with a login for each host."""
    return secret({"auths": dict.fromkeys(hosts, LOGIN)}, **more)


def lists(*names: str, image: str = IMAGE) -> Json:
    return web(image, secrets=names or ("regcred",))


def owned(about: Json, **owner: object) -> Json:
    """Return the pod, which another object controls."""
    owners = [{"apiVersion": "v1", "uid": "o", "name": "owner", "controller": True, **owner}]
    return {**about, "metadata": {**about["metadata"], "ownerReferences": owners}}  # type: ignore[dict-item] # a map


# A secret that is read.


def test_a_secret_with_other_keys_is_never_replaced(tmp_path: Path) -> None:
    """The command would lose them, which may be for other pods."""
    many = secret_for(HOST, "quay.io")
    near = explain_file(tmp_path, lists(image=PORT_IMAGE), many)
    assert near.cause == (
        f"key '{HOST}' of pull secret shop/regcred nearly matches: it has no port, and the image has port 5000"
    )
    assert near.cures[0].text.startswith(f"add an entry for {HOST}:5000 ")
    assert "of pull secret shop/regcred, and keep its other entries" in near.cures[0].text
    refused = explain_file(tmp_path, lists(), many, reports=[failed(IMAGE, unauthorized(IMAGE))])
    assert refused.cures[0].text.startswith(f"correct the entry '{HOST}' ")
    assert "--docker-server" not in cures_of(near) + cures_of(refused)


def test_each_refused_credential_has_its_cure(tmp_path: Path) -> None:
    node = Node(tmp_path).add("acme-registry", [HOST], AUTH.format(HOST))
    seen = [failed(IMAGE, unauthorized(IMAGE))]
    found = explain_file(tmp_path, lists(), secret_for(HOST), node=node, reports=seen)
    assert found.cause.startswith("the registry refuses all 2 credentials, first user 'bob' of pull secret ")
    renew, trace = lines_of(found)
    assert '--docker-username=bob --docker-password="${REGISTRY_PASSWORD:?}"' in renew
    assert trace.startswith(f"keyferry plugin trace {node.bin_dir}/acme-registry {HOST}/team/app")


def test_a_login_that_docker_keeps_elsewhere_is_empty_for_the_kubelet(tmp_path: Path) -> None:
    kept = secret({"auths": {HOST: {"identitytoken": "kf-marked-token"}}, "credsStore": "desktop"})
    found = explain_file(tmp_path, lists(), kept)
    assert found.cause.startswith(
        f"key '{HOST}' of pull secret shop/regcred has no user name and no password: "
    )
    assert "the kubelet ignores both" in found.cause
    assert found.cures[0].text.startswith(
        f"write a user and password of {HOST} to pull secret shop/regcred; "
    )


def test_a_response_for_other_hosts_names_some_of_them(tmp_path: Path) -> None:
    for hosts, cause in (
        (5, "returned credentials for 'other4.io', 'other3.io', 'other2.io', ... only"),
        (0, "the plugin of provider 'acme-registry' returned no credentials"),
    ):
        auth = json.dumps({f"other{number}.io": LOGIN for number in range(hosts)})
        (tmp_path / str(hosts)).mkdir()
        node = Node(tmp_path / str(hosts)).add("acme-registry", [HOST], auth)
        assert cause in explain_file(tmp_path, web(), node=node).cause


# Which cause is likelier.


def test_a_near_miss_is_told_also_where_an_input_is_missing(tmp_path: Path) -> None:
    """Here the docker config of the pod's node."""
    near = explain_file(tmp_path, lists(image=PORT_IMAGE), secret_for(HOST), docker_config=None)
    assert near.cause.startswith(f"key '{HOST}' of pull secret shop/regcred nearly matches: ")
    assert explain_file(tmp_path, lists(), secret_for("quay.io"), docker_config=None).cause == ""


def test_the_cause_is_told_where_the_node_is_not_known(tmp_path: Path) -> None:
    """Its cure comes before the options for what is missing."""
    about, opaque = lists(), secret_for(HOST, type="Opaque")
    found = explain_file(tmp_path, about, opaque, config=None, bin_dir=None, docker_config=None)
    assert found.cause.startswith("the kubelet ignores secret 'regcred': its type is 'Opaque'")
    mend, *options = found.cures
    assert mend.lines
    assert any("--config" in each.text for each in options)


def test_a_plugin_that_failed_is_likelier_than_a_secret(tmp_path: Path) -> None:
    node = Node(tmp_path).add("acme-registry", [HOST], before="exit 3")
    found = explain_file(tmp_path, lists(), secret_for(HOST, type="Opaque"), node=node)
    assert found.cause.startswith("plugin 'acme-registry'")


def test_a_secret_that_the_pod_lists_is_likelier_than_a_pattern_and_that_than_any_other_secret(
    tmp_path: Path,
) -> None:
    """Files have secrets of other pods, too."""
    node, opaque = Node(tmp_path).add("acme-registry", [f"{HOST}:5000"]), secret_for(HOST, type="Opaque")
    assert "'regcred'" in explain_file(tmp_path, lists(), opaque, node=node).cause
    unlisted = explain_file(tmp_path, web(), secret_for(HOST), node=node)
    assert unlisted.cause.startswith(f"pattern '{HOST}:5000' of provider 'acme-registry'")


def test_a_key_that_nearly_matches_is_likelier_than_a_secret_of_no_use(tmp_path: Path) -> None:
    """Unless that one has a login for the image, whatever its place."""
    read, application = secret_for(HOST), secret("x", "other", "x", type="Opaque")
    found = explain_file(tmp_path, lists("other", "regcred", image=PORT_IMAGE), application, read)
    assert found.cause.startswith(f"key '{HOST}' of pull secret shop/regcred nearly matches: ")
    mistyped = secret_for(f"{HOST}:5000", name="mistyped", type="Opaque")
    about = lists("regcred", "other", "mistyped", image=PORT_IMAGE)
    found = explain_file(tmp_path, about, read, application, mistyped)
    assert found.cause.startswith("the kubelet ignores secret 'mistyped': its type is 'Opaque'")
    assert "kubectl delete" not in cures_of(found)


# A secret of no use.


@pytest.mark.parametrize(
    "data", [{}, {"x": "MQ=="}, {".dockerconfigjson": "", "x": "MQ=="}, {".dockerconfigjson": "eA=="}]
)
def test_a_secret_that_an_application_may_need_is_not_deleted(data: dict[str, str], tmp_path: Path) -> None:
    found = explain_file(tmp_path, lists(), aged(pull_secret(type="Opaque", data=data)))
    assert found.cause.startswith("the kubelet ignores secret 'regcred': its type is 'Opaque'")
    leave = "remove 'regcred' from imagePullSecrets, and leave the secret as it is"
    assert found.cures[0].text.startswith(leave)
    create, entry = lines_of(found)
    assert create.startswith("kubectl create secret docker-registry regcred-2 -n shop ")
    assert entry == "- name: regcred-2"


FAULTS = {
    "wrong type": secret_for(HOST, type="Opaque"),
    "no data": secret_for(HOST, key="x"),
    "no entries": secret({"auths": {}}),
    "unreadable": secret({"auths": {HOST: {"auth": "?"}}}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_immutable_secret_is_replaced_and_read_again(fault: str, tmp_path: Path) -> None:
    """A patch is refused, and a kubelet that has read it keeps it as long as a pod of its node lists it."""
    change, again = explain_file(tmp_path, lists(), {**FAULTS[fault], "immutable": True}).cures
    assert change.lines[0].startswith(SAVE)
    assert change.lines[0].endswith(" | kubectl replace --force -f -")
    assert again.lines == (RECREATE,)


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_a_secret_has_a_command_for_a_static_pod(fault: str, tmp_path: Path) -> None:
    about = owned(lists(), kind="Node")
    about["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "a"}}  # type: ignore[operator] # a map
    found = explain_file(tmp_path, about, FAULTS[fault])
    assert "the pod is static" in cures_of(found)
    assert lines_of(found) == []


@pytest.mark.parametrize("content", ["{}", "{"], ids=["no entries", "unreadable"])
def test_a_secret_of_the_old_type_is_edited_in_its_own_format(content: str, tmp_path: Path) -> None:
    old = secret(content, key=".dockercfg", type="kubernetes.io/dockercfg")
    (cure,) = explain_file(tmp_path, lists(), old).cures
    assert "at the top level of .dockercfg" in cure.text
    assert "--type=kubernetes.io/dockercfg --from-file=.dockercfg=" in cure.lines[0]


def test_without_a_pod_no_command_is_known(tmp_path: Path) -> None:
    """Its namespace would be a guess."""
    file = tmp_path / "secret.json"
    file.write_text(json.dumps(FAULTS["wrong type"]))
    found = explain_file(tmp_path, web(), image=IMAGE, filename="", secrets=(str(file),))
    assert not any("kubectl" in line for line in lines_of(found))


# A secret that the pod does not list, or another one.


def test_a_pod_that_lists_secrets_gets_another_beside_them(tmp_path: Path) -> None:
    secrets = [secret_for("quay.io", name=name) for name in ("regcred", "regcred-2")]
    found = explain_file(tmp_path, lists("regcred", "regcred-2"), *secrets)
    assert found.cause == f"nothing that is configured is for {HOST}"
    create, entry = lines_of(found)
    assert create.startswith("kubectl create secret docker-registry regcred-3 -n shop ")
    assert entry == "- name: regcred-3"
    assert "'default'" in found.cures[1].text


def test_an_account_keeps_the_secrets_that_it_may_list(tmp_path: Path) -> None:
    """Its list, which is not known here, is replaced as a whole by a patch that names it."""
    found = explain_file(tmp_path, web(), secret_for(HOST))
    assert '"op":"add","path":"/imagePullSecrets/-"' in lines_of(found)[0]


def test_a_pod_that_has_an_owner_is_deleted_and_comes_back(tmp_path: Path) -> None:
    """It is older than the list of its account."""
    late = (account(secrets=["regcred"]), secret_for(HOST))
    found = explain_file(tmp_path, owned(web(), kind="StatefulSet"), *late)
    assert lines_of(found) == ["kubectl delete pod web -n shop"]
