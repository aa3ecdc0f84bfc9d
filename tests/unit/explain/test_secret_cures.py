"""Secrets that the kubelet does not use are the likely cause, and each has its cure."""

import pytest

from keyferry._core.values import replace
from keyferry.errors import PluginTimeoutError
from keyferry.explain.cures import LikelyCause, find_cause
from keyferry.explain.explanation import Explanation
from keyferry.explain.secret_cures import rewritten_secret
from keyferry.images.answer import Answer
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.accounts import Pod
from keyferry.workloads.secrets import UnusedReason, UnusedSecret
from support.function_plugins import answering, failing, provider, providers

POD = Pod("shop", "web", "u", "puller")
LOGIN = '--docker-username="$REGISTRY_USERNAME" --docker-password="$REGISTRY_PASSWORD"'
CONTENT = b'{"auths":{"reg.io":{"username":"u","password":"p"}}}'
SECRET = PullSecret("shop", "mine", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": CONTENT})
CREATE = f"kubectl create secret docker-registry mine -n shop --docker-server=reg.io {LOGIN}"


def unused(reason: UnusedReason) -> UnusedSecret:
    return UnusedSecret("mine", "shop", reason, f"the secret is {reason}", SECRET)


def nothing() -> Answer:
    return providers().lookup("reg.io/a", pod=POD)


def cause_of(answer: Answer, *reasons: UnusedReason, pod: Pod | None = POD) -> LikelyCause:
    return find_cause(Explanation(answer, unused=tuple(map(unused, reasons)), pod=pod))


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        (UnusedReason.ABSENT, [CREATE]),
        (UnusedReason.OTHER_NAMESPACE, [CREATE]),
        (UnusedReason.WRONG_TYPE, ["kubectl delete secret mine -n shop", CREATE]),
        (UnusedReason.NO_DATA, [f"{CREATE} --dry-run=client -o yaml | kubectl apply -f -"]),
        (UnusedReason.NO_ENTRIES, [f"{CREATE} --dry-run=client -o yaml | kubectl apply -f -"]),
        (UnusedReason.LATE, ["kubectl get pod web -n shop -o yaml | kubectl replace --force -f -"]),
        (
            UnusedReason.NOT_LISTED,
            ['kubectl patch serviceaccount puller -n shop -p \'{"imagePullSecrets":[{"name":"mine"}]}\''],
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


def test_a_plugin_that_failed_is_likelier_than_a_secret() -> None:
    plugin = failing(lambda: PluginTimeoutError("p", 1.0))
    answer = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a", pod=POD)
    assert cause_of(answer, UnusedReason.ABSENT).cause.startswith("plugin 'p'")


def test_the_cause_is_told_where_the_node_is_not_known() -> None:
    """Its cure comes before the options for what is missing."""
    missing = MissingInput(LookupInput.NODE)
    explanation = Explanation(
        replace(nothing(), untold=(missing,)),
        unused=(unused(UnusedReason.ABSENT),),
        pod=POD,
        hints=(f"{missing}; add --config",),
    )
    found = find_cause(explanation)
    assert found.cause == "the secret is absent"
    assert [cure.lines for cure in found.cures] == [(CREATE,), ()]


def test_a_secret_that_cannot_be_read_is_written_again() -> None:
    assert rewritten_secret("shop/mine", "reg.io").lines == (
        f"{CREATE} --dry-run=client -o yaml | kubectl apply -f -",
    )
