"""The metadata server: slow, endless, absent, or a name that is none."""

from __future__ import annotations

from time import monotonic

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import Retry
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.metadata import fetch_metadata_token, is_on_gce
from support.fake_cloud import Reply, serving
from support.google_world import ACCOUNT, World

# Far more than any deadline here, far less than what a hang would take.
PATIENCE_SECONDS = 15.0


@pytest.mark.parametrize(
    "reply",
    [Reply(after=3), Reply(503, headers={"Retry-After": "40"}), Reply(is_endless=True)],
    ids=["slow", "asks to wait", "endless"],
)
def test_nothing_waits_past_the_deadline(world: World, reply: Reply) -> None:
    """A slow answer, a wait that does not fit, a body without an end."""
    world.on(f"GET {ACCOUNT}/token", reply)
    environ = {"GCE_METADATA_HOST": f"127.0.0.1:{world.metadata.port}"}
    started = monotonic()
    with pytest.raises(ProvideError):
        fetch_metadata_token(Calls(deadline=Deadline(1), environ=environ, retry=Retry()))
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_probe_gives_up_soon() -> None:
    """A machine that is not Google's may have a silent address there."""
    with serving(lambda _: Reply(after=3)) as silent:
        calls = Calls(deadline=Deadline(1), environ={"GCE_METADATA_IP": f"127.0.0.1:{silent.port}"})
        assert not is_on_gce(calls)


def test_the_server_that_names_itself_is_found() -> None:
    """By its header, not by its address."""
    named = Reply(headers={"Metadata-Flavor": "Google"})
    with serving(lambda _: named) as server:
        assert is_on_gce(
            Calls(deadline=Deadline(10), environ={"GCE_METADATA_IP": f"127.0.0.1:{server.port}"})
        )


@pytest.mark.parametrize("host", ["http://127.0.0.1", "127.0.0.1/x", "a@b", "a b", "a?b"])
def test_a_metadata_host_is_a_host(host: str) -> None:
    """And not a URL, nor a part of one."""
    with pytest.raises(ProvideError, match="GCE_METADATA_HOST"):
        fetch_metadata_token(Calls(deadline=Deadline(1), environ={"GCE_METADATA_HOST": host}))
