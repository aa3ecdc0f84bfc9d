"""New plugin projects, and launchers for installed plugins."""
