"""Classes of the standard library, taken from the modules behind it that are compiled or always loaded.

``collections`` and ``operator`` also load much that is written in Python, which takes a tenth of a start.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from operator import itemgetter
else:
    from _collections_abc import Callable, Iterable, Mapping, Sequence

    try:
        from _collections import OrderedDict
        from _operator import itemgetter
    except ImportError:  # not CPython
        from collections import OrderedDict
        from operator import itemgetter

__all__ = ["Callable", "Iterable", "Mapping", "OrderedDict", "Sequence", "itemgetter"]
