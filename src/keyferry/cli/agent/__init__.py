"""Commands about the node agent: ``keyferry agent``."""
