"""The AWS plugins before the conformance kit, and what a start of them loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.kit.conformance import examine
from keyferry.kit.lab.plugin_under_test import PluginUnderTest
from keyferry.kit.plugin_kind import PluginKind
from support.aws_services import IMAGE, KEYS, REGION, FakeAws
from support.fake_cloud import serving
from support.reference import SOURCE, image_request, write_launcher

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


PROBE = """
import atexit, sys
sys.path.insert(0, {source!r})
sys.argv = ["keyferry", *{words!r}]
from keyferry_plugins.{name} import main
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
main()
"""
HEAVY = {
    "argparse", "configparser", "dataclasses", "email", "hashlib", "http.client", "inspect", "json.decoder", "logging",
    "re", "socket", "ssl", "subprocess", "typing", "urllib.parse", "xml", "yaml", "_hashlib", "encodings.idna",
}  # fmt: skip
NETWORK = {"socket"}


def loaded(name: str, words: tuple[str, ...], stdin: str, **env: str) -> set[str]:
    """The modules that a run without ``site`` ends with."""
    script = PROBE.format(source=SOURCE, words=words, name=name)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        input=stdin,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
            **KEYS,
            **env,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_a_token_costs_no_heavy_import() -> None:
    """With keys at hand keyferry-eks needs neither network nor OpenSSL."""
    words = ("get-token", "--cluster-name", "c", "--region", REGION)
    assert HEAVY.isdisjoint(loaded("eks", words, ""))


def test_a_login_loads_the_network_and_no_more() -> None:
    """Over plain http keyferry-ecr needs sockets, and nothing for TLS, mail or XML."""
    with serving(FakeAws()) as server:
        found = loaded("ecr", (), image_request(IMAGE), AWS_ENDPOINT_URL=server.url)
    assert "socket" in found
    assert (HEAVY - NETWORK).isdisjoint(found)
