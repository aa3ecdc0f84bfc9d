"""A machine that uses AWS: a home folder with AWS' files, and the variables of a run."""

from __future__ import annotations

import base64
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from support.aws_services import ANNOTATION, IDENTITY, IMAGE, PASSWORD, REGION, SECRET, SESSION_TOKEN
from support.aws_signatures import check_presigned
from support.reference import Answer, ask_cluster, ask_image

NO_ROLE = "-"
CLUSTER = "my-cluster"
# The words of keyferry-eks that choose an order of sources: that of AWS' Go SDK, or botocore's.
GO, BOTOCORE = ("token", "-i", CLUSTER), ("get-token", "--cluster-name", CLUSTER)


@dataclass(frozen=True)
class EksToken:
    """A token of keyferry-eks: the presigned URL in it and its query; *expires_in* seconds it ends."""

    url: str
    query: Mapping[str, str]
    expires_in: float

    @property
    def key(self) -> str:
        """The access key that signed it."""
        return self.query["X-Amz-Credential"].partition("/")[0]

    @property
    def session_token(self) -> str:
        """The session token that belongs to the access key."""
        return self.query.get("X-Amz-Security-Token", "")

    @property
    def region(self) -> str:
        """The region that it is signed for."""
        return self.query["X-Amz-Credential"].split("/")[2]

    @property
    def host(self) -> str:
        """The host of STS that it is for."""
        return self.url.removeprefix("https://").partition("/")[0]


def url_of(token: str) -> str:
    """Return the URL in a token."""
    body = token.removeprefix("k8s-aws-v1.")
    assert body != token
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()


def assert_failed(answer: Answer) -> str:
    """Check that there is nothing but an error, without a secret; return the error."""
    assert (answer.status, answer.stdout) == (1, "")
    for secret in (SECRET, SESSION_TOKEN, PASSWORD, IDENTITY, "marked-", "Traceback"):
        assert secret not in answer.stderr
    return answer.stderr


class AwsMachine:
    """A machine whose *env* names the AWS endpoints and disables instance metadata; more variables are added to it.

    Every access key's secret is SECRET, but for those in *secrets*, such as the keys of roles.
    """

    def __init__(self, home: Path, secrets: Mapping[str, str] | None = None, /, **variables: str) -> None:
        self.home = home
        self.env = {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", **variables}
        self._secrets = secrets or {}

    def write(self, config: str = "", credentials: str = "") -> None:
        """Write the config files of AWS."""
        folder = self.home / ".aws"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(config)
        (folder / "credentials").write_text(credentials)

    def find(self, words: tuple[str, ...] = GO, /, *args: str, **env: str) -> EksToken:
        """Return a token, signed with the credentials of a run with these additional variables."""
        return self.token(*words, "--region", REGION, *args, **env)

    def fail_to_find(self, words: tuple[str, ...] = GO, /, *args: str, **env: str) -> str:
        """Return the error of a run that finds no credentials."""
        return assert_failed(self.ask_eks(*words, "--region", REGION, *args, **env))

    def token(self, *args: str, cluster: str = CLUSTER, drop: str = "", **env: str) -> EksToken:
        """Return a token of keyferry-eks, its signature checked as STS checks it."""
        status = self.ask_eks(*args, drop=drop, **env).login_status
        url = url_of(status["token"])
        known = defaultdict(lambda: SECRET, self._secrets)
        query = check_presigned(url, {"x-k8s-aws-id": cluster}, known)
        expiry = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        return EksToken(url, query, expiry - time.time())

    def ask_ecr(
        self,
        image: str = IMAGE,
        *args: str,
        token: str = "",
        role: str = NO_ROLE,
        drop: str = "",
        **env: str,
    ) -> Answer:
        """Run keyferry-ecr as a kubelet does; *role* is the annotation of the service account."""
        annotations = None if role == NO_ROLE else {ANNOTATION: role}
        told = self._told(drop, env)
        return ask_image("ecr", image, args=args, env=told, token=token, annotations=annotations)

    def ask_eks(self, *args: str, exec_info: str | None = "v1", drop: str = "", **env: str) -> Answer:
        """Run keyferry-eks as kubectl does."""
        return ask_cluster("eks", args=args, env=self._told(drop, env), exec_info=exec_info)

    def _told(self, drop: str, env: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in {**self.env, **env}.items() if name not in drop.split()}
