"""Commands about images: get, explain, can-pull, pull."""
