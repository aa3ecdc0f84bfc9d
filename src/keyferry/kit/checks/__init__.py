"""The checks of the conformance kit, each beside its code and its words."""
