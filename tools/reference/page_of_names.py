"""For the page of names: the fields of a value are listed one by one, so its constructor is left out."""

from __future__ import annotations

from typing import Any

import griffe


class Values(griffe.Extension):
    """Removes the constructor that all values share, which takes anything."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Remove it from the package, once that is read."""
        pkg["_core.values.Value"].del_member("__init__")
