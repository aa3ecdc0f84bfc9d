"""The likely cause, and what cures it."""

from __future__ import annotations

import json

from keyferry._core.values import replace
from keyferry.errors import Kind, PluginNotFoundError, RegistryError
from keyferry.explain.causes import explain
from keyferry.explain.explanation import Explanation, Facts
from keyferry.explain.registry import RegistryCheck
from keyferry.images.answer import Answer, LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.provider.accounts import Pod
from keyferry.pulls.trial import Attempt
from support.function_plugins import answering, failing, provider, providers

POD = Pod(namespace="shop", name="web", uid="u", service_account_name="puller")
CONFIG: dict[str, object] = {"path": "/etc/p.yaml", "binDir": "/opt/bin"}
LOGIN = ("bob", "hidden-password")


def secret(name: str, *hosts: str) -> PullSecret:
    auths = {host: {"username": LOGIN[0], "password": LOGIN[1]} for host in hosts}
    data = {".dockerconfigjson": json.dumps({"auths": auths}).encode()}
    return PullSecret(namespace="shop", name=name, type="kubernetes.io/dockerconfigjson", data=data)


def with_secret(image: str, *hosts: str) -> Answer:
    return providers().lookup(image, pod=POD, pull_secrets=(secret("regcred", *hosts),))


def cause_of(answer: Answer, **facts: object) -> Explanation:
    found = explain(Facts(answer=answer, config=CONFIG, pod=POD, **facts))  # type: ignore[arg-type] # fields
    assert LOGIN[1] not in str(found)
    return found


def lines_of(cause: Explanation) -> list[str]:
    return [line for cure in cause.cures for line in cure.lines]


def test_a_secret_whose_key_nearly_matches_gets_another_entry() -> None:
    """The one that it has may be for other pods."""
    found = cause_of(with_secret("reg.io:5000/a", "reg.io"), secret_names=("regcred",))
    assert found.cause == (
        "key 'reg.io' of pull secret shop/regcred nearly matches: it has no port, and the image has port 5000"
    )
    (line,) = lines_of(found)
    assert found.cures[0].text.startswith("add an entry for reg.io:5000 ")
    assert "--docker-server" not in line


def test_a_secret_with_other_keys_is_never_replaced() -> None:
    """The command would lose them."""
    found = cause_of(with_secret("reg.io:5000/a", "reg.io", "quay.io"), secret_names=("regcred",))
    assert found.cures[0].text.startswith("add an entry for reg.io:5000 ")
    assert "of pull secret shop/regcred, and keep its other entries" in found.cures[0].text
    answer, listed = with_secret("reg.io/a", "reg.io", "quay.io"), secret("regcred", "reg.io", "quay.io")
    refused = cause_of(answer, check=check(answer, 401), pull_secrets=(listed,))
    assert refused.cures[0].text.startswith("correct the entry 'reg.io' ")
    assert not any("--docker-server" in line for line in (*lines_of(found), *lines_of(refused)))


def test_a_pod_that_lists_secrets_gets_another_beside_them() -> None:
    found = cause_of(with_secret("reg.io/a", "quay.io"), secret_names=("regcred", "regcred-2"))
    assert found.cause == "nothing that is configured is for reg.io"
    create, entry = lines_of(found)
    assert create.startswith("kubectl create secret docker-registry regcred-3 -n shop ")
    assert entry == "- name: regcred-3"
    assert "'puller'" in found.cures[1].text


def test_without_anything_configured_the_cause_says_so_and_an_unknown_pod_gets_no_secret() -> None:
    found = explain(Facts(answer=providers().lookup("reg.io/a")))
    assert found.cause == "there is no provider, no pull secret and no docker config"
    assert found.cures == ()


def test_a_plugin_that_is_missing_is_installed() -> None:
    plugin = failing(lambda: PluginNotFoundError("p", "is missing"))
    found = cause_of(providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a"))
    assert lines_of(found) == ["keyferry lint /etc/p.yaml --bin-dir /opt/bin"]
    assert found.cures[0].text.startswith("install 'p' in /opt/bin")


def test_a_response_for_other_hosts_is_traced() -> None:
    auth = {f"other{number}.io": LOGIN for number in range(5)}
    found = cause_of(providers(provider("p", ["reg.io"], answering(auth))).lookup("reg.io/a"))
    assert "returned credentials for 'other4.io', 'other3.io', 'other2.io', ... only" in found.cause
    assert lines_of(found) == ["keyferry plugin trace /opt/bin/p reg.io/a --config /etc/p.yaml -o text"]
    found = cause_of(providers(provider("p", ["reg.io"], answering({}))).lookup("reg.io/a"))
    assert found.cause == "the plugin of provider 'p' returned no credentials"


def check(answer: Answer, status: int, kind: Kind | None = None) -> RegistryCheck:
    error = RegistryError("reg.io", status, "responds so", kind)
    attempts = tuple(Attempt(credential=each, error=error) for each in answer.credentials) or (
        Attempt(credential=None, error=error),
    )
    return RegistryCheck(image=answer.image, attempts=attempts)


def test_each_refused_credential_has_its_cure() -> None:
    auth = {"reg.io": LOGIN}
    listed = (secret("regcred", "reg.io"),)
    answer = providers(provider("p", ["reg.io"], answering(auth))).lookup(
        "reg.io/a", pod=POD, pull_secrets=listed
    )
    found = cause_of(answer, check=check(answer, 401), pull_secrets=listed)
    assert found.cause.startswith("reg.io refuses all 2 credentials, first user 'bob' of pull secret ")
    renew, trace = lines_of(found)
    assert '--docker-username=bob --docker-password="${REGISTRY_PASSWORD:?}"' in renew
    assert trace.startswith("keyferry plugin trace /opt/bin/p reg.io/a")


def test_a_404_may_be_an_image_that_is_hidden() -> None:
    answer = with_secret("reg.io/a", "reg.io")
    found = cause_of(answer, check=check(answer, 404))
    assert "hides it from users without access" in found.cause
    assert found.cures[0].text.endswith("give user 'bob' of pull secret shop/regcred access to it")


def test_a_registry_that_cannot_be_reached_has_no_other_cause_than_its_verdict() -> None:
    answer = with_secret("reg.io/a", "reg.io")
    found = cause_of(answer, check=check(answer, 0, Kind.UNREACHABLE))
    assert found.cause == ""
    assert found.cures[0].text.startswith("check the name and the port of reg.io")


def test_an_anonymous_refusal_is_explained_by_the_lookup() -> None:
    answer = with_secret("reg.io:5000/a", "reg.io")
    assert cause_of(answer, check=check(answer, 401)).cause.startswith("key 'reg.io' of pull secret")


def test_a_near_miss_is_told_also_where_an_input_is_missing() -> None:
    answer = replace(with_secret("reg.io:5000/a", "reg.io"), not_given=(MissingInput(input=LookupInput.POD),))
    found = cause_of(answer, secret_names=("regcred",))
    assert found.cause.startswith("key 'reg.io' of pull secret shop/regcred nearly matches: ")
    far = replace(with_secret("reg.io/a", "quay.io"), not_given=(MissingInput(input=LookupInput.POD),))
    assert cause_of(far).cause == ""


def test_a_login_that_docker_keeps_elsewhere_is_empty_for_the_kubelet() -> None:
    auths = {"reg.io": {"identitytoken": "hidden-password"}}
    data = {".dockerconfigjson": json.dumps({"auths": auths, "credsStore": "desktop"}).encode()}
    listed = PullSecret(namespace="shop", name="regcred", type="kubernetes.io/dockerconfigjson", data=data)
    answer = providers().lookup("reg.io/a", pod=POD, pull_secrets=(listed,))
    assert "empty-login" in [str(reason.outcome) for reason in answer.reasons]
    found = cause_of(answer, check=check(answer, 401), pull_secrets=(listed,))
    assert found.cause.startswith(
        "key 'reg.io' of pull secret shop/regcred has no user name and no password: "
    )
    assert "the kubelet ignores both" in found.cause
    assert found.cures[0].text.startswith("write a user and password of reg.io to pull secret shop/regcred; ")
