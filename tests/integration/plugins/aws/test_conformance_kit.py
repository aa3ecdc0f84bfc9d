"""The AWS plugins before the conformance kit, and what a start of them loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.kit.conformance import examine
from keyferry.kit.lab.plugin_under_test import PluginUnderTest
from keyferry.kit.plugin_kind import PluginKind
from support.aws_services import IMAGE, KEYS, REGION, FakeAws
from support.fake_cloud import serving
from support.reference import write_launcher

PUBLIC = "public.ecr.aws/team/app"


def test_ecr_passes_the_kit(tmp_path: Path) -> None:
    """Some fifty requests, odd and hostile ones among them, and nothing to complain of."""
    with serving(FakeAws()) as server:
        env = {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true", **KEYS}
        program = write_launcher(tmp_path, "ecr")
        report = examine(PluginUnderTest(str(program), images=(IMAGE, PUBLIC), env=tuple(env.items())))
    assert report.failed_codes == ()


@pytest.mark.parametrize("words", [("get-token", "--cluster-name", "c"), ("token", "-i", "c")])
def test_eks_passes_the_kit(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As the command line, and as the authenticator."""
    env = {"AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true", **KEYS}
    program = write_launcher(tmp_path, "eks")
    report = examine(PluginUnderTest(str(program), PluginKind.CLUSTER, words, tuple(env.items())))
    assert report.failed_codes == ()
