"""What the AWS plugins share: credentials and where they come from, endpoints, signatures, calls."""
