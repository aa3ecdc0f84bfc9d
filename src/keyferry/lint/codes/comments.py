"""Problems of the comments with which a file speaks to lint: title, reason, correction."""

from __future__ import annotations

COMMENTS: dict[str, tuple[str, str, str]] = {
    "KF050": (
        "an ignore comment has no effect",
        "a comment '# keyferry: ignore CODE' applies to its own line, or to the next one if it stands alone; errors "
        "cannot be ignored, because they stop a kubelet or kubectl all the same",
        "remove the comment or the code, or correct it",
    ),
}
