"""What Google's two plugins share: tokens from metadata, credential files, exchanges and gcloud."""
