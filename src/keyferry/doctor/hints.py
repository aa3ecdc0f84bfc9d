"""The commands that a line proposes, with the options that were given, so that they work when they are pasted."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.show.paste import join_words

__all__ = ["Hints"]


class Hints(Value):
    """The options that were given, as words: those that commands about images have too, and the *others*."""

    shared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def doctor(self, *more: str, is_root: bool = False) -> str:
        """Return this command again, as root or with more options."""
        start = ("sudo", "keyferry") if is_root else ("keyferry",)
        return join_words(*start, "doctor", *self.shared, *self.others, *more)

    def about_image(self, command: str, image: str = "registry.example/image", *more: str) -> str:
        """Return a command about an image."""
        return join_words("keyferry", command, image, *self.shared, *more)

    def lint(self, path: str, bin_dir: str = "") -> str:
        """Return a lint of a file or folder, with its plugins."""
        return join_words("keyferry", "lint", path, *(("--bin-dir", bin_dir) if bin_dir else ()))
