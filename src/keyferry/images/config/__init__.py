"""Provider configs: reading, decoding, validation, and the checks of their plugins."""
