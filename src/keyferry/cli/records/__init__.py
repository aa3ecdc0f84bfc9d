"""Commands about pull records: ``keyferry records``."""
