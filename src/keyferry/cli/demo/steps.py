"""The steps of the demo: a problem, the commands that explain it, and what is learnt."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.cli.frame.commands import Exit

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
        "The pattern looks right, and the kubelet still pulls without credentials.",
        ((f"explain eu.harbour.example:443/team/app {_APP}", (Exit.NO,)),),
        "A pattern without a port matches only images without one.",
    ),
    DemoStep(
        "The registry says 'unauthorized', and nobody says that a plugin failed.",
        ((f"explain pier.example/app {_APP}", (Exit.PLUGIN,)),),
        "The kubelet only logs a failed plugin, on the node, and pulls anonymously. Secrets in what the plugin"
        " printed are masked here.",
    ),
    DemoStep(
        "The pod lists its pull secret, which exists and is right, and it is not used.",
        ((f"explain dock.example/shop/web:v1 {_WEB} --secret copy.yaml", (Exit.UNKNOWN,)),),
        "A pod uses pull secrets of its own namespace only.",
    ),
    DemoStep(
        "The plugin returns credentials, and the kubelet ignores them.",
        ((f"explain eu.wharf.example/team/app {_APP}", (Exit.NO,)),),
        "The keys of a response must match the image, by the rules of patterns.",
    ),
    DemoStep(
        "An image is on the node. Which pods may use it?",
        (
            (
                f"pull {{host}}/team/app:v1 {_WEB} --secret secret.yaml --to layout"
                " --platform linux/amd64 --root node",
                (Exit.OK,),
            ),
            ("records who {host}/team/app:v1 --root node", (Exit.OK,)),
        ),
        "Only pods with the secret that it was pulled with; all others must pull it again.",
    ),
    DemoStep(
        "kubectl says 'You must be logged in to the server', although the plugin works.",
        (("kube explain --kubeconfig kubeconfig.yaml", (Exit.UNKNOWN,)),),
        "The plugin printed a token that had already expired. The demo has no cluster, so no server answers.",
    ),
)

REST = (
    DemoStep(
        "A provider config that looks correct. Does a kubelet accept it?",
        (("lint mistaken.yaml", (Exit.NO,)), ("lint providers.yaml --bin-dir bin", (Exit.OK,))),
        "The corrected config has no findings, and its plugins can be run.",
    ),
    DemoStep(
        "Which credentials does the kubelet have for an image?",
        ((f"get eu.harbour.example/team/app:v1 {_APP}", (Exit.OK,)),),
        "They are listed in the order in which the kubelet tries them.",
    ),
    DemoStep(
        "Where do they come from?",
        ((f"explain eu.harbour.example/team/app:v1 {_APP} -o wide", (Exit.OK,)),),
        "The matching pattern, the plugin, the auth key and the order of trial are the kubelet's.",
    ),
    DemoStep(
        "Does the registry accept the credentials?",
        ((f"can-pull {{host}}/team/app:v1 {_APP}", (Exit.OK,)),),
        "Each is tried in order; nothing is downloaded.",
    ),
    DemoStep(
        "Does a plugin follow the protocol?",
        (
            (
                "plugin test bin/harbour --image eu.harbour.example/team/app --image eu.harbour.example/other"
                " --only KP101 --only KP105 --only KP112 --only KP129 --only KP301",
                (Exit.OK,),
            ),
        ),
        "These are five of about sixty checks; the plugin uses keyferry's SDK.",
    ),
    DemoStep(
        "What did a plugin receive and answer?",
        (("plugin trace bin/harbour eu.harbour.example/team/app -o text", (Exit.OK,)),),
        "The trace has no secret in it, so that it can be part of a bug report.",
    ),
    DemoStep(
        "What does kubectl pass to its plugin?",
        (
            ("kube exec-info --kubeconfig kubeconfig.yaml", (Exit.OK,)),
            ("kube explain --no-run --kubeconfig kubeconfig.yaml", (Exit.OK,)),
        ),
        "The names of variables are shown, and their values are not. With --no-run no plugin is run.",
    ),
)
