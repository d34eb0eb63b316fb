"""A port that nothing answers at, as on a host without power: who connects waits until it gives up."""

from __future__ import annotations

import socket
from contextlib import suppress

_FILL = 3  # connections that take the only place of the queue; the kernel drops who comes behind them


class DarkPort:
    """From now on until `close`. Nothing may listen there."""

    def __init__(self, address: str, port: int) -> None:
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind((address, port))
        self._server.listen(0)
        self.port: int = self._server.getsockname()[1]
        self._waiting = [socket.socket() for _ in range(_FILL)]
        for each in self._waiting:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect((address, self.port))

    def close(self) -> None:
        """May be called twice."""
        for each in (*self._waiting, self._server):
            each.close()
