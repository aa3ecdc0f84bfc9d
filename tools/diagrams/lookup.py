"""How the kubelet finds the credentials for an image, and the command for each part."""

from __future__ import annotations

from diagrams.drawing import Arrow, Box, Picture, Text

_BOXES = {
    "secrets": Box(20, 20, 215, 100, "1  Pull secrets", ("that the pod lists,", "of its own namespace")),
    "docker": Box(
        20,
        134,
        215,
        100,
        "2  Node's docker config",
        ("config.json of the kubelet,", "reread every 5 minutes"),
    ),
    "providers": Box(
        20,
        248,
        215,
        100,
        "3  Providers",
        ("of the node's config, by", "the patterns in matchImages"),
        "lint, diff",
    ),
    "plugin": Box(
        265,
        248,
        185,
        100,
        "Plugin",
        ("runs on a match, unless", "its answer is cached"),
        "plugin test, trace",
    ),
    "keys": Box(
        480,
        20,
        165,
        328,
        "Keys",
        (
            "A key is a host and",
            "perhaps a path.",
            "",
            "Those that match the",
            "image are used; its",
            "tag and digest do",
            "not count.",
        ),
        "explain -o wide",
    ),
    "order": Box(
        675,
        20,
        160,
        328,
        "Order",
        (
            "1, then 2, then 3.",
            "",
            "Within each: keys in",
            "descending byte",
            "order, not the most",
            "specific first.",
        ),
        "get",
    ),
    "registry": Box(
        865,
        20,
        155,
        328,
        "Registry",
        (
            "One pull for each",
            "credential, until",
            "one works.",
            "",
            "With none: one",
            "anonymous pull. Its",
            "refusal becomes",
            "the pod's event.",
        ),
        "can-pull, pull",
    ),
}

PICTURE = Picture(
    "diagram.svg",
    "How the kubelet finds credentials: pull secrets, the node's docker config and providers give keys;"
    " those that match the image are tried in order at the registry",
    1040,
    400,
    _BOXES,
    (
        Arrow("secrets", "keys"),
        Arrow("docker", "keys"),
        Arrow("providers", "plugin"),
        Arrow("plugin", "keys"),
        Arrow("keys", "order"),
        Arrow("order", "registry"),
    ),
    texts=(
        Text(20, 379, "The whole way, for a pod:"),
        Text(205, 379, "keyferry explain pod/NAME -n NAMESPACE", "m"),
    ),
)
