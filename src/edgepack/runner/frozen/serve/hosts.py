"""The ``Host`` that a request names, against pages that let their own name lead to this machine (DNS rebinding)."""

from __future__ import annotations

import re
import socket
from argparse import Namespace

from .question import Refused

PORT = re.compile(r":\d*$")


class HostCheck:
    """Which names a request may call the server by: ``localhost``, any address, ``--host``, ``--allow-host``.

    An address is no name that leads elsewhere tomorrow. Who knows the token, or may open the unix socket, may call it anything.
    """

    def __init__(self, options: Namespace) -> None:
        self._any = bool(options.token or options.unix)
        self._names = {name.lower().rstrip(".") for name in ("localhost", options.host, *options.allow_host)}

    def require(self, host: str) -> None:
        """Raises ``Refused``. HTTP/1.0 needs no name, and no browser speaks it."""
        if self._any or not host:
            return
        name = PORT.sub("", host).lower().rstrip(".")
        if name not in self._names and not name.endswith(".localhost") and not is_address(name):
            raise Refused(421, "unknown host name; --allow-host adds one")


def is_address(name: str) -> bool:
    bracketed = name.startswith("[") and name.endswith("]")
    try:
        socket.inet_pton(socket.AF_INET6 if bracketed else socket.AF_INET, name[1:-1] if bracketed else name)
    except (OSError, ValueError):
        return False
    return True
