"""Pull records and intents: files, cache, decisions and maintenance."""
