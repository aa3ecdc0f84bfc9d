"""Wire types by group and version: pure data, no input or output."""
