"""A server and a context that may use it."""

from tests.support.network import index, online, plain_network, server

__all__ = ["index", "online", "plain_network", "server"]
