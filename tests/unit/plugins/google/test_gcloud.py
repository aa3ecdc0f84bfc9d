"""A gcloud that does not answer."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.gcloud import config_helper, gcloud_token
from support.google_gcloud import write_gcloud

# Far more than any deadline here, far less than what a hang would take.
PATIENCE_SECONDS = 15.0


def test_a_gcloud_that_hangs_is_killed(tmp_path: Path) -> None:
    """With all that it started."""
    gcloud = write_gcloud(tmp_path / "bin")
    gcloud.prints({}, seconds=600)
    call = config_helper(project="", account="", impersonate="", configuration="")
    environ = {"PATH": f"{gcloud.folder}:{os.environ['PATH']}"}
    started = monotonic()
    with pytest.raises(ProvideError, match="did not end in time"):
        gcloud_token(call, Calls(deadline=Deadline(2), environ=environ))
    assert monotonic() - started < PATIENCE_SECONDS
