"""One credential provider: its plugin, its cache, the accounts it is asked for."""
