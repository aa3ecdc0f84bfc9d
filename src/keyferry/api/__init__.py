"""Wire types by API group and version: pure data without I/O."""
