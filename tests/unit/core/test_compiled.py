"""Classes that are taken from the compiled modules of the standard library."""

import collections
import operator

from keyferry._core import compiled


def test_they_are_those_of_the_standard_library() -> None:
    assert compiled.OrderedDict is collections.OrderedDict
    assert compiled.itemgetter is operator.itemgetter
