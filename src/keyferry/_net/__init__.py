"""Network access with the standard library alone and little start-up time: deadlines, proxies, connections, TLS."""
