"""The node agent, and the metrics it shares with programs that embed keyferry."""
