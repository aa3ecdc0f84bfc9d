"""Let docker's tools use docker-credential-keyferry."""
