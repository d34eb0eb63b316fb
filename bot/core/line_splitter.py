"""Bytes that arrive cut anywhere, to physical lines."""

from __future__ import annotations


class LineSplitter:
    """Splits at newlines alone; a line of more than `most` bytes comes in pieces of `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their newlines."""
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            return self._hold(data)
        whole = b"".join((*self._begun, head))
        self._begun, self._size = [], 0
        lines = whole.split(b"\n")
        if len(whole) > self._most:
            lines = [piece for line in lines for piece in self._pieces(line)]
        return lines + self._hold(rest)

    def close(self) -> bytes | None:
        """What stands after the last newline; None where nothing does."""
        rest = b"".join(self._begun)
        self._begun, self._size = [], 0
        return rest or None

    def _hold(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        self._begun.append(data)
        self._size += len(data)
        if self._size <= self._most:
            return []
        *pieces, rest = self._pieces(b"".join(self._begun))
        self._begun, self._size = [rest], len(rest)
        return pieces

    def _pieces(self, line: bytes) -> list[bytes]:
        return [line[at : at + self._most] for at in range(0, len(line), self._most)] or [line]
