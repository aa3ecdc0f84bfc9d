"""The node agent: one process per node that holds credentials for everybody on it who may have them."""
