"""Bindings per second on a real API server, compared with a bare client that makes no decisions."""
