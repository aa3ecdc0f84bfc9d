"""A kubeconfig as YAML nodes, so that unchanged parts are written back as they were, except for comments."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml import MappingNode, Node

__all__ = ["entries", "get", "parse", "put", "remove", "serialize", "text"]


def parse(data: bytes, where: str) -> MappingNode:
    """Return the root of a kubeconfig; raise ProvideError, which quotes none of it, if it is not a mapping."""
    import yaml

    root: Node | None = None
    try:
        root = yaml.compose(data, yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError):
        pass
    if not isinstance(root, yaml.MappingNode):
        raise ProvideError(f"{where} is not a YAML mapping")
    return root


def serialize(root: Node) -> bytes:
    """Return the YAML text of a document."""
    import yaml

    # Without an encoding the result is a str, contrary to the stubs.
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=4096)).encode()


def get(node: Node | None, *names: str) -> Node | None:
    """Return the node under a path of keys, or None."""
    import yaml

    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def text(node: Node | None, *names: str) -> str:
    """Return the text of the scalar under a path of keys, as written, or an empty string."""
    import yaml

    found = get(node, *names)
    if not isinstance(found, yaml.ScalarNode) or found.tag.endswith(":null"):
        return ""
    return str(found.value)


def entries(node: Node | None, name: str) -> Iterator[Node]:
    """Yield the items of the list under a key."""
    import yaml

    found = get(node, name)
    if isinstance(found, yaml.SequenceNode):
        yield from found.value


def put(node: MappingNode, name: str, value: object) -> None:
    """Set a key to plain data."""
    import yaml

    remove(node, name)
    made = yaml.compose(yaml.safe_dump({name: value}, sort_keys=False), yaml.SafeLoader)
    if isinstance(made, yaml.MappingNode):  # and nothing else is what a dict becomes
        node.value += made.value


def remove(node: MappingNode, name: str) -> None:
    """Remove a key, if it exists."""
    node.value = [(key, value) for key, value in node.value if key.value != name]
