"""An OCI layout folder: its blobs, its index, and a pull into it."""
