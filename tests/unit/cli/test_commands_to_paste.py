"""The command lines of cures ask the same question again, and repeat nothing that is not needed."""

from __future__ import annotations

import shlex

import pytest

from keyferry._core.values import replace
from keyferry.cli import explain
from keyferry.cli.parser import make_parser
from keyferry.cli.run import load_command
from keyferry.workloads.request import ClusterOptions, RecordOptions, RegistryOptions, Request

EVERYTHING = Request(
    image="reg.io/app",
    namespace="shop",
    filename="the pod's.yaml",
    secrets=("s1", "s2"),
    service_account="shop/puller",
    service_account_token="token",
    docker_config="auto",
    config="a b",
    bin_dir="c",
    here=True,
    no_run=True,
    timeout_seconds=5.0,
    withhold_env=("A", "B"),
    env_from="self",
    agent="off",
    request_token=True,
    check_registry=True,
    cluster=ClusterOptions(context="prod", kubeconfig="kube.yaml"),
    registry=RegistryOptions(
        ca_file="ca.pem", insecure=True, timeout_seconds=0.5, hosts_dir="hosts", registries_conf="conf"
    ),
    records=RecordOptions(
        root="/root", policy="NeverVerifyAllowlistedImages", allow=("reg.io/*",), cri="auto"
    ),
)


@pytest.mark.parametrize(
    "request_",
    [
        EVERYTHING,
        Request(image="reg.io/app"),
        Request(target="deploy/web", namespace="shop"),
        Request(filename="pods.yaml"),
        Request(image="reg.io/app", records=RecordOptions(image_id="sha256:1")),
    ],
    ids=["everything", "image", "target", "file", "id"],
)
def test_a_command_asks_the_same_question(request_: Request) -> None:
    words = shlex.split(request_.explain_command())
    assert words[:2] == ["keyferry", "explain"]
    args = make_parser("keyferry explain", load_command("explain")).parse_args(words[2:])
    assert explain.make_request(args) == request_


def test_defaults_are_not_repeated() -> None:
    assert Request(image="x", is_start=True).explain_command() == "keyferry explain x"
    assert Request(image="x").try_command("y", "a/b") == "keyferry plugin try y --service-account a/b"


def test_standard_input_is_gone_when_a_command_is_pasted() -> None:
    assert Request(filename="-").explain_command() == "keyferry explain -f FILE"


def test_a_trial_has_the_options_that_it_shares() -> None:
    command = replace(EVERYTHING, here=False).try_command("reg.io/app", "shop/puller")
    assert command == (
        "keyferry plugin try reg.io/app --service-account shop/puller --config 'a b' --bin-dir c --timeout 5 "
        "--withhold-env A --withhold-env B --env-from self --kubeconfig kube.yaml --context prod --ca-file ca.pem "
        "--insecure --registry-timeout 0.5 --hosts-dir hosts --registries-conf conf"
    )
