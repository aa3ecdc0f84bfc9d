"""The demo: a config, plugins and a registry on this machine, and the commands that use them."""

import os
import shlex
import sys
import tempfile

from keyferry.cli.frame.commands import Exit
from keyferry.errors import EnvironmentProblem
from keyferry.show.report import report
from keyferry.show.writer import Lines, style

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Show the main commands on this machine, without installing anything else. The demo writes a provider
config with three small plugins into a folder of its own and starts a registry that requires a login. It
then lints the config, gets credentials, explains the results, pulls an image into a folder, shows which
pods may use it, and tests a plugin. Each step prints the command that it runs."""

EXAMPLES = """\
examples:
  keyferry demo
  keyferry demo --keep ./demo     # keep the files, to try other commands on them"""

_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: harbour
  matchImages:
  - "*.harbour.example"
  - "harbour.example:5000/team/"
  - "{host}"
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: pier
  matchImages:
  - "pier.example"
  defaultCacheDuration: 5m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"""

_MISTAKEN = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: harbour
  matchImages:
  - "harbour.example/*"
  - "index.docker.io"
  defaultCacheDuration: 1d
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"""

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: prod
  cluster: {{server: "https://cluster.harbour.example:6443"}}
contexts:
- name: prod
  context: {{cluster: prod, user: pilot, namespace: team}}
users:
- name: pilot
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/pilot
      env: [{{name: PILOT_ROLE, value: deployer}}]
      interactiveMode: Never
      provideClusterInfo: true
"""

_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: team, uid: 6f1c0b1e-0c1d-4c38-9d0e-2f4c6d9a1b11}
spec:
  serviceAccountName: default
  containers: [{name: app, image: "eu.harbour.example/team/app:v1"}]
"""

_PILOT = """\
from time import time
from keyferry.sdk import ExecResponse, serve_cluster
serve_cluster(lambda request: ExecResponse("a-token-nobody-sees", expires_at=time() + 3600))
"""

_HARBOUR = """\
from keyferry.sdk import ProvideError, Response, serve

OURS = ("harbour.example", "127.0.0.1")

def provide(request):
    if not request.registry.partition(":")[0].endswith(OURS):
        raise ProvideError(f"{request.registry} is not one of our registries")
    return Response.for_registry(request, "ferry", "correct horse battery staple", cache_seconds=3600)

serve(provide)
"""

_PIER = """\
import sys
sys.exit("login at pier.example failed for token=eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl")
"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry demo``."""
    parser.add_argument("--keep", metavar="DIR", help="write the files to this folder and keep them")


def run(args: "argparse.Namespace") -> int:
    """Write the files, then run the commands on them."""
    if args.keep:
        folder = os.path.abspath(args.keep)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise EnvironmentProblem(f"{args.keep!r} cannot be created: {error.strerror}") from None
        code = _tell(folder)
        print(Lines(f"\nThe files are in {folder}."))
        return code
    with tempfile.TemporaryDirectory(prefix="keyferry-demo-") as folder:
        return _tell(folder)


def _tell(folder: str) -> int:
    from keyferry.cli.demo_registry import DemoRegistry

    here = os.getcwd()
    with DemoRegistry() as registry:
        _write_files(folder, registry.host)
        os.chdir(folder)
        try:
            results = [_step(told, typed.format(host=registry.host), code) for told, typed, code in _STORY]
        finally:
            os.chdir(here)
    return Exit.OK if all(results) else Exit.NO


_WHERE = "--config providers.yaml --bin-dir bin"
_ASKED = f"{_WHERE} -f pod.yaml"
# The explanation of each step, its command line, and the expected exit code.
_STORY = (
    ("A provider config that looks correct. Does a kubelet accept it?", "lint mistaken.yaml", Exit.NO),
    (
        "The corrected config has no findings, and its plugins can be run.",
        "lint providers.yaml --bin-dir bin",
        Exit.OK,
    ),
    (
        "Get the credentials for an image, as the kubelet finds them.",
        f"get eu.harbour.example/team/app:v1 {_ASKED}",
        Exit.OK,
    ),
    (
        "Explain the result: the matching pattern, the plugin, the auth key and the trial order.",
        f"explain eu.harbour.example/team/app:v1 {_ASKED}",
        Exit.OK,
    ),
    (
        "A common mistake: the host is the same, but the pod's image has a port.",
        f"explain eu.harbour.example:443/team/app {_ASKED}",
        Exit.NO,
    ),
    (
        "A plugin fails. The kubelet logs this and pulls anonymously. The secret that the plugin printed is masked.",
        f"explain pier.example/app {_ASKED}",
        Exit.PLUGIN,
    ),
    (
        "Does the registry accept the credentials? Each is tried in order; nothing is downloaded.",
        f"can-pull {{host}}/team/app:v1 {_ASKED}",
        Exit.OK,
    ),
    (
        "Pull the image as the kubelet does, into a folder, and write the kubelet's pull record.",
        f"pull {{host}}/team/app:v1 {_WHERE} --to layout --platform linux/amd64 --root node",
        Exit.OK,
    ),
    (
        "The image is now on the node. Which pods may use it?",
        "records who {host}/team/app:v1 --root node",
        Exit.OK,
    ),
    (
        "Test the working plugin, which uses keyferry's SDK, with five of about sixty checks.",
        "plugin test bin/harbour --image eu.harbour.example/team/app --image eu.harbour.example/other"
        " --only KP101 --only KP105 --only KP112 --only KP129 --only KP301",
        Exit.OK,
    ),
    (
        "Record one request and its response for a bug report, without any secret.",
        "plugin trace bin/harbour eu.harbour.example/team/app -o text",
        Exit.OK,
    ),
    (
        "Clusters: show what kubectl passes to its plugin, with the names of variables but not their values.",
        "kube exec-info --kubeconfig kubeconfig.yaml",
        Exit.OK,
    ),
    (
        "Explain every step from the kubeconfig to the plugin. The server does not exist, so no plugin is run.",
        "kube explain --no-run --kubeconfig kubeconfig.yaml",
        Exit.OK,
    ),
)


def _step(told: str, typed: str, expected: Exit) -> bool:
    """Run one command of the demo and return whether it ended with the expected exit code."""
    from keyferry.cli.main import main

    print(Lines(f"\n{style('# ' + told, 'cyan')}\n{style('$ keyferry ' + typed, 'bold')}"), flush=True)
    code = main(shlex.split(typed))
    sys.stdout.flush()
    if code != expected:
        report(f"this step of the demo expected exit code {int(expected)}, found {code}")
    return code == expected


def _write_files(folder: str, host: str) -> None:
    bin_dir = os.path.join(folder, "bin")
    os.makedirs(bin_dir, exist_ok=True)
    _write(os.path.join(folder, "providers.yaml"), _CONFIG.format(host=host), 0o644)
    _write(os.path.join(folder, "mistaken.yaml"), _MISTAKEN, 0o644)
    _write(os.path.join(folder, "pod.yaml"), _POD, 0o644)
    _write(os.path.join(folder, "kubeconfig.yaml"), _KUBECONFIG.format(), 0o600)
    for name, body in (("harbour", _HARBOUR), ("pier", _PIER), ("pilot", _PILOT)):
        _write(os.path.join(bin_dir, name), f"#!{sys.executable} -I\n{body}", 0o755)


def _write(path: str, text: str, mode: int) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)
