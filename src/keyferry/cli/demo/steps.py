"""The steps of the demo: a problem, the commands that explain it, and what is learnt."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.cli.exits import Exit

__all__ = ["REST", "STEPS", "DemoStep"]


class DemoStep(Value):
    """One step: each of *commands* is a command line, with ``{host}`` for the registry, and its exit codes."""

    problem: str
    commands: tuple[tuple[str, tuple[Exit, ...]], ...]
    moral: str


_WHERE = "--config providers.yaml --bin-dir bin"
_APP = f"{_WHERE} -f app.yaml"
_WEB = f"{_WHERE} -f web.yaml"

STEPS = (
    DemoStep(
        problem="The pattern looks right, and the kubelet still pulls without credentials.",
        commands=((f"explain eu.harbour.example:443/team/app {_APP}", (Exit.NO,)),),
        moral="A pattern without a port matches only images without one.",
    ),
    DemoStep(
        problem="The registry says 'unauthorized', and nobody says that a plugin failed.",
        commands=((f"explain pier.example/app {_APP}", (Exit.PLUGIN,)),),
        moral="The kubelet only logs a failed plugin, on the node, and pulls anonymously. Secrets in what the plugin"
        " printed are masked here.",
    ),
    DemoStep(
        problem="The pod lists its pull secret, which exists and is right, and it is not used.",
        commands=((f"explain dock.example/shop/web:v1 {_WEB} --secret copy.yaml", (Exit.UNKNOWN,)),),
        moral="A pod uses pull secrets of its own namespace only.",
    ),
    DemoStep(
        problem="The plugin returns credentials, and the kubelet ignores them.",
        commands=((f"explain eu.wharf.example/team/app {_APP}", (Exit.NO,)),),
        moral="The keys of a response must match the image, by the rules of patterns.",
    ),
    DemoStep(
        problem="An image is on the node. Which pods may use it?",
        commands=(
            (
                f"pull {{host}}/team/app:v1 {_WEB} --secret secret.yaml --to layout"
                " --platform linux/amd64 --root node",
                (Exit.OK,),
            ),
            ("records who {host}/team/app:v1 --root node", (Exit.OK,)),
        ),
        moral="Only pods with the secret that it was pulled with; all others must pull it again.",
    ),
    DemoStep(
        problem="kubectl says 'You must be logged in to the server', although the plugin works.",
        commands=(("kube explain --kubeconfig kubeconfig.yaml", (Exit.UNKNOWN,)),),
        moral="The plugin printed a token that had already expired. The demo has no cluster, so no server answers.",
    ),
)

REST = (
    DemoStep(
        problem="A provider config that looks correct. Does a kubelet accept it?",
        commands=(("lint mistaken.yaml", (Exit.NO,)), ("lint providers.yaml --bin-dir bin", (Exit.OK,))),
        moral="The corrected config has no findings, and its plugins can be run.",
    ),
    DemoStep(
        problem="Which credentials does the kubelet have for an image?",
        commands=((f"get eu.harbour.example/team/app:v1 {_APP}", (Exit.OK,)),),
        moral="They are listed in the order in which the kubelet tries them.",
    ),
    DemoStep(
        problem="Where do they come from?",
        commands=((f"explain eu.harbour.example/team/app:v1 {_APP} -o wide", (Exit.OK,)),),
        moral="The matching pattern, the plugin, the auth key and the order of trial are the kubelet's.",
    ),
    DemoStep(
        problem="Does the registry accept the credentials?",
        commands=((f"can-pull {{host}}/team/app:v1 {_APP}", (Exit.OK,)),),
        moral="Each is tried in order; nothing is downloaded.",
    ),
    DemoStep(
        problem="Does a plugin follow the protocol?",
        commands=(
            (
                "plugin test bin/harbour --image eu.harbour.example/team/app --image eu.harbour.example/other"
                " --only KP101 --only KP105 --only KP112 --only KP129 --only KP301",
                (Exit.OK,),
            ),
        ),
        moral="These are five of about sixty checks; the plugin uses keyferry's SDK.",
    ),
    DemoStep(
        problem="What did a plugin receive and answer?",
        commands=(("plugin trace bin/harbour eu.harbour.example/team/app -o text", (Exit.OK,)),),
        moral="The trace has no secret in it, so that it can be part of a bug report.",
    ),
    DemoStep(
        problem="What does kubectl pass to its plugin?",
        commands=(
            ("kube exec-info --kubeconfig kubeconfig.yaml", (Exit.OK,)),
            ("kube explain --no-run --kubeconfig kubeconfig.yaml", (Exit.OK,)),
        ),
        moral="The names of variables are shown, and their values are not. With --no-run no plugin is run.",
    ),
)
