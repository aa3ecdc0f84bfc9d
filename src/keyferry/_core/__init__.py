"""What everything stands on: values, documents, texts, secrets, files, the clock. It imports nothing above."""
