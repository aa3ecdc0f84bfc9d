"""Shared parts of Google's two plugins: tokens from metadata, credential files, exchanges and gcloud."""
