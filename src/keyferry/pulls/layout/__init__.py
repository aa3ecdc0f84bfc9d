"""OCI layout folders: blobs, the index, and pulls into them."""
