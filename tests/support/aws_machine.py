"""A machine that uses AWS: a home folder with AWS' files, and the variables of a run."""

from __future__ import annotations

from pathlib import Path

from keyferry.sdk import Deadline
from keyferry_plugins.aws.chain import GO, find_credentials
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.signing.sigv4 import Credentials
from support.aws_services import ANNOTATION, IMAGE, REGION
from support.reference import Answer, ask_cluster, ask_image

NO_ROLE = "-"


class AwsMachine:
    """A machine whose *env* names the AWS endpoints and disables instance metadata; more variables are added to it."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.env = {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", **variables}

    def write(self, config: str = "", credentials: str = "") -> None:
        """Write the config files of AWS."""
        folder = self.home / ".aws"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(config)
        (folder / "credentials").write_text(credentials)

    def find(
        self, order: str = GO, *, profile: str = "", seconds: str = "20", **variables: str
    ) -> Credentials:
        """Return the credentials of a run with these additional *variables*."""
        environment = Environment({**self.env, **variables}, Deadline(float(seconds)), profile=profile)
        return find_credentials(environment, region=REGION, order=order)

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
