"""The likely cause if no credential is found or the registry refuses it, and the cure with its commands."""

from __future__ import annotations

import json

import pytest

from keyferry._core.values import replace
from keyferry.errors import Kind, PluginNotFoundError, PluginTimeoutError, RegistryError
from keyferry.explain.causes import explain
from keyferry.explain.explanation import Explanation, Facts
from keyferry.explain.registry import RegistryCheck
from keyferry.images.answer import Answer, LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.provider.accounts import Pod
from keyferry.pulls.trial import Attempt
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, choose_secrets
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


LOGIN_OPTIONS = '--docker-username="${REGISTRY_USERNAME:?}" --docker-password="${REGISTRY_PASSWORD:?}"'
CONTENT = b'{"auths":{"reg.io":{"username":"u","password":"p"}}}'
SECRET = PullSecret(
    namespace="shop", name="mine", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": CONTENT}
)
RECREATE = (
    'saved=$(mktemp web-saved.XXXXXX) && kubectl get pod web -n shop -o yaml > "$saved" && '
    'kubectl replace --force -f "$saved"'
)
SAVE = 'saved=$(mktemp mine-saved.XXXXXX) && kubectl get secret mine -n shop -o yaml > "$saved"'
CREATE = f"kubectl create secret docker-registry mine -n shop --docker-server=reg.io {LOGIN_OPTIONS}"
REWRITE = f'{SAVE} && kubectl patch secret mine -n shop -p "$({CREATE} --dry-run=client -o json)"'
# Only where the account lists none, still.
LIST = (
    "kubectl patch serviceaccount puller -n shop --type=json -p "
    """'[{"op":"test","path":"/imagePullSecrets","value":null},"""
    """{"op":"add","path":"/imagePullSecrets","value":[{"name":"mine"}]}]'"""
)


def unused(reason: UnusedReason) -> UnusedSecret:
    return UnusedSecret(
        name="mine", namespace="shop", reason=reason, text=f"the secret is {reason}", secret=SECRET
    )


def nothing() -> Answer:
    return providers().lookup("reg.io/a", pod=POD)


def cause_of_unused(answer: Answer, *reasons: UnusedReason, pod: Pod | None = POD) -> Explanation:
    return explain(Facts(answer=answer, unused=tuple(map(unused, reasons)), pod=pod, account_secrets=()))


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        (UnusedReason.ABSENT, [CREATE]),
        (UnusedReason.OTHER_NAMESPACE, [CREATE, LIST, RECREATE]),
        (
            UnusedReason.WRONG_TYPE,
            [
                f"{SAVE} && sed 's|^type: .*|type: kubernetes.io/dockerconfigjson|' "
                '"$saved" | kubectl replace --force -f -'
            ],
        ),
        (UnusedReason.NO_DATA, [REWRITE]),
        (UnusedReason.NO_ENTRIES, [REWRITE]),
        (UnusedReason.UNREADABLE, [REWRITE]),
        (UnusedReason.LATE, [RECREATE]),
        (
            UnusedReason.NOT_LISTED,
            [LIST, RECREATE],
        ),
    ],
)
def test_each_reason_has_its_cure(reason: UnusedReason, lines: list[str]) -> None:
    found = cause_of_unused(nothing(), reason)
    assert found.cause == f"the secret is {reason}"
    assert [line for cure in found.cures for line in cure.lines] == lines
    assert cause_of_unused(nothing(), reason, pod=None).cures == ()


def test_every_reason_has_a_cure() -> None:
    for reason in UnusedReason:
        assert cause_of_unused(nothing(), reason).cures


def test_a_secret_that_the_pod_lists_is_likelier_than_a_pattern_and_that_than_any_other_secret() -> None:
    """Files have secrets of other pods, too."""
    near = providers(provider("p", ["reg.io:5000"], answering({}))).lookup("reg.io/a", pod=POD)
    assert cause_of_unused(near, UnusedReason.NOT_LISTED, UnusedReason.ABSENT).cause == "the secret is absent"
    assert cause_of_unused(near, UnusedReason.NOT_LISTED).cause.startswith(
        "pattern 'reg.io:5000' of provider 'p'"
    )


def secret_with(name: str, host: str, type_: str, key: str = ".dockerconfigjson") -> PullSecret:
    content = json.dumps({"auths": {host: {"username": "u", "password": "p"}}}).encode()
    return PullSecret(namespace="shop", name=name, type=type_, data={key: content})


def near(*given: PullSecret) -> Explanation:
    """Return the cause for an image on a port that the key of the first secret lacks."""
    names = tuple(each.name for each in given)
    chosen = choose_secrets(given, names, "shop")
    answer = providers().lookup("reg.io:5000/a", pod=POD, pull_secrets=chosen.used)
    return explain(Facts(answer=answer, unused=chosen.unused, pod=POD, secret_names=names))


def test_a_key_that_nearly_matches_is_likelier_than_a_secret_of_no_use() -> None:
    """Unless that one has a login for the image, whatever its place."""
    read = secret_with("regcred", "reg.io", "kubernetes.io/dockerconfigjson")
    application = secret_with("other", "reg.io:5000", "Opaque", "x")
    found = near(application, read)
    assert found.cause.startswith("key 'reg.io' of pull secret shop/regcred nearly matches: ")
    assert found.cures[0].text.startswith("add an entry for reg.io:5000 ")
    mistyped = secret_with("mistyped", "reg.io:5000", "Opaque")
    found = near(read, application, mistyped)
    assert found.cause.startswith("the kubelet ignores secret 'mistyped': its type is 'Opaque'")
    assert "kubectl delete" not in found.cures[0].lines[0]


@pytest.mark.parametrize(
    "data", [{}, {"x": b"1"}, {".dockerconfigjson": CONTENT, "x": b"1"}, {".dockerconfigjson": b"x"}]
)
def test_a_secret_that_an_application_may_need_is_not_deleted(data: dict[str, bytes]) -> None:
    found = near(PullSecret(namespace="shop", name="regcred", type="Opaque", data=data))
    assert found.cause.startswith("the kubelet ignores secret 'regcred': its type is 'Opaque'")
    assert found.cures[0].text.startswith(
        "remove 'regcred' from imagePullSecrets, and leave the secret as it is"
    )
    lines = [line for cure in found.cures for line in cure.lines]
    assert lines[0].startswith("kubectl create secret docker-registry regcred-2 -n shop ")
    assert lines[1:] == ["- name: regcred-2"]


def test_a_plugin_that_failed_is_likelier_than_a_secret() -> None:
    plugin = failing(lambda: PluginTimeoutError("p", 1.0))
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a", pod=POD)
    assert cause_of_unused(answer, UnusedReason.ABSENT).cause.startswith("plugin 'p'")


def test_the_cause_is_told_where_the_node_is_not_known() -> None:
    """Its cure comes before the options for what is missing."""
    missing = MissingInput(input=LookupInput.NODE)
    facts = Facts(
        answer=replace(nothing(), not_given=(missing,)),
        unused=(unused(UnusedReason.ABSENT),),
        pod=POD,
        hints=(f"{missing}; add --config",),
    )
    found = explain(facts)
    assert found.cause == "the secret is absent"
    assert [cure.lines for cure in found.cures] == [(CREATE,), ()]


@pytest.mark.parametrize("listed", [None, ("other",)])
def test_an_account_keeps_the_secrets_that_it_lists_or_may_list(listed: tuple[str, ...] | None) -> None:
    """Its list is replaced as a whole by a patch that names it."""
    facts = Facts(
        answer=nothing(), unused=(unused(UnusedReason.NOT_LISTED),), pod=POD, account_secrets=listed
    )
    line = explain(facts).cures[0].lines[0]
    assert '"op":"add","path":"/imagePullSecrets/-"' in line


def test_a_pod_that_has_an_owner_is_deleted_and_comes_back() -> None:
    facts = Facts(answer=nothing(), unused=(unused(UnusedReason.LATE),), pod=POD, is_replaced=True)
    assert explain(facts).cures[0].lines == ("kubectl delete pod web -n shop",)


@pytest.mark.parametrize(
    "reason", [UnusedReason.NO_ENTRIES, UnusedReason.UNREADABLE, UnusedReason.WRONG_TYPE]
)
def test_an_immutable_secret_is_replaced_and_read_again(reason: UnusedReason) -> None:
    """A patch is refused, and a kubelet that has read it keeps it as long as a pod of its node lists it."""
    secret = replace(unused(reason), secret=replace(SECRET, is_immutable=True))
    change, again = explain(Facts(answer=nothing(), unused=(secret,), pod=POD)).cures
    assert change.lines[0].startswith(SAVE)
    assert change.lines[0].endswith(" | kubectl replace --force -f -")
    assert again.lines == (RECREATE,)


@pytest.mark.parametrize("reason", [UnusedReason.NO_ENTRIES, UnusedReason.UNREADABLE])
def test_a_secret_of_the_old_type_is_edited_in_its_own_format(reason: UnusedReason) -> None:
    old = PullSecret(
        namespace="shop", name="mine", type="kubernetes.io/dockercfg", data={".dockercfg": b"{}"}
    )
    (cure,) = explain(Facts(answer=nothing(), unused=(replace(unused(reason), secret=old),), pod=POD)).cures
    assert "at the top level of .dockercfg" in cure.text
    assert "--type=kubernetes.io/dockercfg --from-file=.dockercfg=" in cure.lines[0]


def test_no_reason_has_a_command_for_a_static_pod() -> None:
    for reason in UnusedReason:
        facts = Facts(answer=nothing(), unused=(unused(reason),), pod=POD, is_static=True)
        assert [cure.lines for cure in explain(facts).cures] == [()]
