"""One credential provider: its plugin, its cache, and the service accounts it is run for."""
