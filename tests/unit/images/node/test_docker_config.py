"""The places of the node's docker config."""

from __future__ import annotations

from keyferry.images.node.settings import node_config_candidates


def test_the_node_is_searched_in_the_kubelets_order() -> None:
    """New files everywhere before old ones; without a home its places are left out."""
    assert node_config_candidates("/r", "/w", "/h") == (
        ("/r/config.json", True),
        ("/w/config.json", True),
        ("/h/.docker/config.json", True),
        ("/.docker/config.json", True),
        ("/r/.dockercfg", False),
        ("/w/.dockercfg", False),
        ("/h/.dockercfg", False),
        ("/.dockercfg", False),
    )
    assert len(node_config_candidates("/r", "/w", "")) == 6
