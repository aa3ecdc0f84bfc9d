"""keyferry.dev: the config of the node agent."""
