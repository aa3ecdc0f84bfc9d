"""A kubeconfig as the nodes of its YAML: what is not changed is written back as it was, but for comments."""

from keyferry.sdk import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml import MappingNode, Node

__all__ = ["entries", "get", "parse", "put", "remove", "serialize", "text"]


def parse(data: bytes, where: str) -> "MappingNode":
    """The root of a kubeconfig; raises ProvideError, which quotes none of it."""
    import yaml

    root: Node | None = None
    try:
        root = yaml.compose(data, yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError):
        pass
    if not isinstance(root, yaml.MappingNode):
        raise ProvideError(f"{where} is not a YAML mapping")
    return root


def serialize(root: "Node") -> bytes:
    """The text of a document."""
    import yaml

    # Without an encoding the text is a str, whatever the stubs say.
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=4096)).encode()


def get(node: "Node | None", *names: str) -> "Node | None":
    """What stands under a path of keys, or None."""
    import yaml

    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def text(node: "Node | None", *names: str) -> str:
    """The scalar under a path of keys, as it is written, or nothing."""
    import yaml

    found = get(node, *names)
    if not isinstance(found, yaml.ScalarNode) or found.tag.endswith(":null"):
        return ""
    return str(found.value)


def entries(node: "Node | None", name: str) -> "Iterator[Node]":
    """The items of the list under a key."""
    import yaml

    found = get(node, name)
    if isinstance(found, yaml.SequenceNode):
        yield from found.value


def put(node: "MappingNode", name: str, value: object) -> None:
    """Set a key to plain data."""
    import yaml

    remove(node, name)
    made = yaml.compose(yaml.safe_dump({name: value}, sort_keys=False), yaml.SafeLoader)
    node.value += made.value


def remove(node: "MappingNode", name: str) -> None:
    """Take a key away, if it is there."""
    node.value = [(key, value) for key, value in node.value if key.value != name]
