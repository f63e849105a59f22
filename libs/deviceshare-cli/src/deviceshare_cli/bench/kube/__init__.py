"""Bindings per second on a real API server, beside what the same server takes from a client that decides nothing."""
