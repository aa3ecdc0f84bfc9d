"""AWS on loopback, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_machine import AwsMachine
from support.aws_services import FakeAws
from support.fake_cloud import FakeServer, serving


@pytest.fixture
def aws() -> FakeAws:
    """ECR and STS, which check what they are sent."""
    return FakeAws()


@pytest.fixture
def server(aws: FakeAws) -> Iterator[FakeServer]:
    """Both of them, on loopback."""
    with serving(aws) as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, aws: FakeAws, server: FakeServer) -> AwsMachine:
    """A machine with an empty home whose STS is on loopback."""
    return AwsMachine(tmp_path, aws.secrets, AWS_ENDPOINT_URL_STS=server.url)
