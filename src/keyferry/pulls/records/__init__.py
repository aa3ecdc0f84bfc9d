"""Pull records and intents: files, memory, decisions, maintenance."""
