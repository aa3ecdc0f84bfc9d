"""Problems of config files, refused or valid but not intended, with positions and stable codes."""
