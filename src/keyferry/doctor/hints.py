"""The commands that a line proposes, with the options that were given, so that they work when they are pasted."""

from __future__ import annotations

import shlex

from keyferry._core.values import Value

__all__ = ["Hints"]


class Hints(Value):
    """The options that were given, as words: those that commands about images have too, and the *others*."""

    shared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def doctor(self, *more: str, is_root: bool = False) -> str:
        """Return this command again, as root or with more options."""
        start = ("sudo", "keyferry") if is_root else ("keyferry",)
        return shlex.join((*start, "doctor", *self.shared, *self.others, *more))

    def about_image(self, command: str, image: str = "registry.example/image", *more: str) -> str:
        """Return a command about an image."""
        return shlex.join(("keyferry", command, image, *self.shared, *more))

    def lint(self, path: str, bin_dir: str = "") -> str:
        """Return a lint of a file or folder, with its plugins."""
        return shlex.join(("keyferry", "lint", path, *(("--bin-dir", bin_dir) if bin_dir else ())))
