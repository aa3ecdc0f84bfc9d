"""The checks of the conformance kit, each beside its code and its words.

To add one, write a Code with the next number of its kind, and a function with ``@check``, in the module that it belongs
to, and a plugin that fails it in ``tests/support/kit_broken.py``; then run ``make generated``.
"""
