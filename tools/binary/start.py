"""Start keyferry in the executable that ``make binary`` builds."""

from __future__ import annotations

import os

from keyferry.cli.main import run

# What the wrappers of the executable set for themselves. The plugins that keyferry runs are programs of the machine:
# they must not load the libraries of the executable.
_WRAPPERS = ("_MEI", "_PYI_", "STATICX_")
for name in [each for each in os.environ if each.startswith(_WRAPPERS)]:
    del os.environ[name]
before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if before is None:
    os.environ.pop("LD_LIBRARY_PATH", None)
else:
    os.environ["LD_LIBRARY_PATH"] = before

run()
