"""Secrets that the kubelet does not use are the likely cause, and each has its cure."""

from __future__ import annotations

import json

import pytest

from keyferry._core.values import replace
from keyferry.errors import PluginTimeoutError
from keyferry.explain.causes import explain
from keyferry.explain.explanation import Explanation, Facts
from keyferry.images.answer import Answer, LookupInput, MissingInput
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.provider.accounts import Pod
from keyferry.workloads.secrets import UnusedReason, UnusedSecret, choose_secrets
from support.function_plugins import answering, failing, provider, providers

POD = Pod(namespace="shop", name="web", uid="u", service_account_name="puller")
LOGIN = '--docker-username="${REGISTRY_USERNAME:?}" --docker-password="${REGISTRY_PASSWORD:?}"'
CONTENT = b'{"auths":{"reg.io":{"username":"u","password":"p"}}}'
SECRET = PullSecret(
    namespace="shop", name="mine", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": CONTENT}
)
RECREATE = (
    'saved=$(mktemp web-saved.XXXXXX) && kubectl get pod web -n shop -o yaml > "$saved" && '
    'kubectl replace --force -f "$saved"'
)
SAVE = 'saved=$(mktemp mine-saved.XXXXXX) && kubectl get secret mine -n shop -o yaml > "$saved"'
CREATE = f"kubectl create secret docker-registry mine -n shop --docker-server=reg.io {LOGIN}"
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


def cause_of(answer: Answer, *reasons: UnusedReason, pod: Pod | None = POD) -> Explanation:
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
    found = cause_of(nothing(), reason)
    assert found.cause == f"the secret is {reason}"
    assert [line for cure in found.cures for line in cure.lines] == lines
    assert cause_of(nothing(), reason, pod=None).cures == ()


def test_every_reason_has_a_cure() -> None:
    for reason in UnusedReason:
        assert cause_of(nothing(), reason).cures


def test_a_secret_that_the_pod_lists_is_likelier_than_a_pattern_and_that_than_any_other_secret() -> None:
    """Files have secrets of other pods, too."""
    near = providers(provider("p", ["reg.io:5000"], answering({}))).lookup("reg.io/a", pod=POD)
    assert cause_of(near, UnusedReason.NOT_LISTED, UnusedReason.ABSENT).cause == "the secret is absent"
    assert cause_of(near, UnusedReason.NOT_LISTED).cause.startswith("pattern 'reg.io:5000' of provider 'p'")


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
    assert cause_of(answer, UnusedReason.ABSENT).cause.startswith("plugin 'p'")


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
