"""Put a reference plugin where a kubelet or kubectl looks for it, as a small program that starts fast and isolated."""

import os
import sys

from keyferry._values import Value
from keyferry.errors import EnvironmentProblem

__all__ = ["PLUGINS", "Plugin", "install", "launcher_text"]

_MODE = 0o755
# The kernel cuts a "#!" line here.
_LONGEST_FIRST_LINE = 127


class Plugin(Value):
    """A reference plugin: its module, the program it can stand in for, whose it is, and what it is for."""

    name: str
    upstream: str
    kind: str
    about: str

    @property
    def module(self) -> str:
        """The module whose ``main`` is the plugin."""
        return f"keyferry_plugins.{self.name.replace('-', '_')}"

    @property
    def program(self) -> str:
        """The name it has by default."""
        return f"keyferry-{self.name}"


PLUGINS = {
    plugin.name: plugin
    for plugin in (
        Plugin("ecr", "ecr-credential-provider", "image", "Amazon ECR, private and public"),
        Plugin("gcr", "auth-provider-gcp", "image", "Google Container Registry and Artifact Registry"),
        Plugin("acr", "acr-credential-provider", "image", "Azure Container Registry"),
        Plugin("static", "", "image", "docker config files and directories of secrets"),
        Plugin("docker-helper", "", "image", "any docker-credential-* program"),
        Plugin("eks", "aws-iam-authenticator", "cluster", "Amazon EKS, by a presigned STS request"),
        Plugin("gke", "gke-gcloud-auth-plugin", "cluster", "Google GKE"),
        Plugin("aks", "kubelogin", "cluster", "Azure AKS, by Entra ID"),
        Plugin("oidc", "kubectl-oidc_login", "cluster", "any OpenID Connect issuer"),
    )
}


def install(plugin: Plugin, folder: str, name: str, *, replace: bool = False) -> str:
    """Write a program called *name* into *folder* that runs *plugin*; give its path.

    Raises EnvironmentProblem: the folder is missing or closed to us, or there is such a program already.
    """
    path = os.path.join(folder, name)
    if not os.path.isdir(folder):
        raise EnvironmentProblem(f"{folder!r} is not a folder; make it first: mkdir -p {folder}")
    if os.path.lexists(path) and not replace:
        raise EnvironmentProblem(f"{path!r} is there already; --force replaces it")
    temporary = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(launcher_text(plugin))
            os.fchmod(fd, _MODE)
        os.replace(temporary, path)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be written: {(error.strerror or '').lower()}") from None
    return path


def launcher_text(plugin: Plugin) -> str:
    """The program: this interpreter, without the user's settings and without ``site``, and the paths it needs."""
    lines = [
        f"{_first_lines()}import sys",
        f"sys.path += {_paths()!r}",
        f"from {plugin.module} import main",
        "main()",
        "",
    ]
    return "\n".join(lines)


def _first_lines() -> str:
    line = f"#!{sys.executable} -IS\n"
    if len(line) <= _LONGEST_FIRST_LINE and " " not in sys.executable:
        return line
    # A shell reads the second line, Python takes it for a text.
    quoted = sys.executable.replace("'", "'\\''")
    return f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''\n"


def _paths() -> list[str]:
    """Where keyferry is, and where the packages it may use are."""
    import sysconfig

    import keyferry

    here = os.path.dirname(os.path.dirname(os.path.abspath(keyferry.__file__)))
    places = sysconfig.get_paths()
    return list(dict.fromkeys([here, places["purelib"], places["platlib"]]))
