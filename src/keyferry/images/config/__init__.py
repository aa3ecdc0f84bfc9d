"""Provider configs: read from files, decoded, validated, and their plugins registered."""
