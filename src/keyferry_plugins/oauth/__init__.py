"""What the plugins of several clouds share: tokens, the answers of token endpoints, device codes and token caches."""
