"""One reader per format of a saved log: physical lines in; text, time and writer out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from bot.core.entries import read_text
from bot.core.events import LogLine, Origin
from bot.core.log_times import LogClock, read_seconds
from bot.core.manager_lines import read_manager_line, read_suppressed
from bot.core.tail import HEADER
from bot.core.transcript_csv import CsvReader, unescape
from bot.core.transcript_formats import (
    COMPOSE_HEADER,
    DOCKER_HEADER,
    KUBERNETES_HEADER,
    SHORT_HEADER,
    TAIL_ROW,
    Format,
)
from bot.core.transcript_json import JsonLinesReader
from bot.core.transcript_rows import Row
from bot.core.transcript_verbose import VerboseReader

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from bot.core.journal import Decoder

JOINED_MOST = 8 << 20  # characters of one joined line
FIELD_MOST = 64 << 20  # bytes of one field in the export format; a longer one is no journal's


class Reader(Protocol):
    def read(self, raw: bytes) -> Iterable[Row | LogLine]: ...

    def close(self) -> Iterable[Row | LogLine]: ...


class PlainReader:
    def read(self, raw: bytes) -> Iterable[Row]:
        yield Row(_text(raw))

    def close(self) -> Iterable[Row]:
        return ()


class ShortReader:
    """journalctl's short formats and syslog files, which hide control characters as `#033`."""

    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self._last = Row("")
        self._indent = "\0"  # of a further line of one message; at first there is none

    def read(self, raw: bytes) -> Iterable[Row]:
        line = _text(raw)
        header = SHORT_HEADER.match(line)
        if header is not None:
            self._last = self._row(line, header)
            self._indent = " " * header.end()
            yield self._last
        elif line.startswith("-- "):
            yield Row(line, origin=Origin.OTHER)
        else:
            yield replace(self._last, text=unescape(line.removeprefix(self._indent)), fields={})

    def close(self) -> Iterable[Row]:
        return ()

    def _row(self, line: str, header: re.Match[str]) -> Row:
        text = unescape(line[header.end() :])
        seconds, stamp = header["seconds"], header["stamp"] or header["full"]
        at = read_seconds(seconds) if seconds else self._clock.read(stamp)
        return _written_by(header["ident"], header["pid"], Row(text, at), host=header["host"])


class TailReader:
    """Our own tails; a line that begins with a tab goes on with the one before."""

    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self._held: Row | None = None
        self._more: list[str] = []  # its further lines

    def read(self, raw: bytes) -> Iterable[Row]:
        line = read_text(raw)
        if self._held is not None and line.startswith("\t"):
            self._more.append(line[1:])
            return
        yield from self.close()
        if not line.startswith(HEADER):
            self._held = self._row(line)

    def close(self) -> Iterable[Row]:
        held, more = self._held, self._more
        self._held, self._more = None, []
        return () if held is None else (replace(held, text="\n".join((held.text, *more))),)

    def _row(self, line: str) -> Row:
        found = TAIL_ROW.fullmatch(line)
        if found is None:
            return Row(line, origin=Origin.OTHER)
        row = Row(found["text"], self._clock.read(found["stamp"]))
        return _written_by(found["ident"], found["pid"], row, host=found["host"])


class ContainerReader:
    """`docker logs --timestamps` and `docker compose logs`, also both at once."""

    def __init__(self, clock: LogClock) -> None:
        self._clock = clock

    def read(self, raw: bytes) -> Iterable[Row]:
        line = _text(raw)
        name = ""
        if composed := COMPOSE_HEADER.match(line):
            name = composed["name"] or composed["pod"]
            line = line[composed.end() :]
        at = None
        if stamped := DOCKER_HEADER.match(line):
            at = self._clock.read(stamped["stamp"])
            line = line[stamped.end() :]
        yield Row(line, at, fields={"CONTAINER_NAME": name} if name else {}, stream=name)

    def close(self) -> Iterable[Row]:
        return ()


class _Joiner:
    """Joins what a container runtime cut at 16 KiB, by stream."""

    def __init__(self) -> None:
        self._begun: dict[str, list[str]] = {}
        self._sizes: Counter[str] = Counter()

    def join(self, row: Row, *, whole: bool) -> Iterable[Row]:
        begun = self._begun.setdefault(row.stream, [])
        begun.append(row.text)
        self._sizes[row.stream] += len(row.text)
        if whole or self._sizes[row.stream] > JOINED_MOST:
            del self._begun[row.stream], self._sizes[row.stream]
            yield replace(row, text="".join(begun).rstrip("\r"))

    def close(self) -> Iterable[Row]:
        rows = [Row("".join(begun).rstrip("\r"), stream=stream) for stream, begun in self._begun.items()]
        self._begun.clear()
        self._sizes.clear()
        return rows


class KubernetesReader:
    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self._joiner = _Joiner()

    def read(self, raw: bytes) -> Iterable[Row]:
        line = read_text(raw)
        header = KUBERNETES_HEADER.match(line)
        if header is None:
            return [Row(_text(raw))]
        row = Row(line[header.end() :], self._clock.read(header["stamp"]), stream=header["stream"])
        return self._joiner.join(row, whole=header["tag"] == "F")

    def close(self) -> Iterable[Row]:
        return self._joiner.close()


class DockerJsonReader:
    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self._joiner = _Joiner()

    def read(self, raw: bytes) -> Iterable[Row]:
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            entry = None
        text = entry.get("log") if isinstance(entry, dict) else None
        if not isinstance(text, str):
            return [Row(_text(raw))]
        text = read_text(text.encode("utf-8", "backslashreplace"))
        at, stream = self._clock.read(str(entry.get("time"))), str(entry.get("stream"))
        row = Row(text.removesuffix("\n"), at, stream=stream)
        return self._joiner.join(row, whole=text.endswith("\n"))

    def close(self) -> Iterable[Row]:
        return self._joiner.close()


class JsonReader:
    """journalctl's JSON, one entry a line or one spread over several."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._spread: list[bytes] = []

    def read(self, raw: bytes) -> Iterable[LogLine]:
        line = raw.strip().removeprefix(b"\x1e").removeprefix(b"data: ")
        if self._spread or line == b"{":
            self._spread.append(line)
            if line != b"}":
                return []
            line = b" ".join(self._spread)
            self._spread = []
        return self._decoder.feed(line + b"\n")

    def close(self) -> Iterable[LogLine]:
        rest = self._decoder.feed(b" ".join(self._spread) + b"\n")
        return rest + self._decoder.close()


class ExportReader:
    """`KEY=value` lines, or `KEY`, a length in eight bytes and so many bytes; an empty line ends an entry."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._entry: dict[str, list[object]] = {}
        self._name = ""  # of the field whose bytes are being collected
        self._field = bytearray()

    def read(self, raw: bytes) -> Iterable[LogLine]:
        if self._name:
            self._collect(raw)
            return ()
        if not raw:
            return self.close()
        name, equals, value = raw.partition(b"=")
        if equals:
            self._put(read_text(name), value)
        else:
            self._name = read_text(raw)
        return ()

    def close(self) -> Iterable[LogLine]:
        if self._name:
            self._put(self._name, bytes(self._field[8:]))
        entry, self._entry = self._entry, {}
        alone = {name: values[0] if len(values) == 1 else values for name, values in entry.items()}
        return self._decoder.take(alone) if alone else ()

    def _collect(self, raw: bytes) -> None:
        self._field += raw + b"\n"
        size = int.from_bytes(self._field[:8], "little")
        if len(self._field) >= min(size, FIELD_MOST) + 9:
            self._put(self._name, bytes(self._field[8:-1]))

    def _put(self, name: str, value: bytes) -> None:
        self._name, self._field = "", bytearray()
        self._entry.setdefault(name, []).append(value if name == "MESSAGE" else read_text(value))


_READERS: dict[Format, Callable[[LogClock], Reader]] = {
    Format.SHORT: ShortReader,
    Format.TAIL: TailReader,
    Format.DOCKER: ContainerReader,
    Format.COMPOSE: ContainerReader,
    Format.KUBERNETES: KubernetesReader,
    Format.DOCKER_JSON: DockerJsonReader,
    Format.JSON_LINES: JsonLinesReader,
}


def open_reader(kind: Format, *, clock: LogClock, decoder: Decoder) -> Reader:
    match kind:
        case Format.PLAIN:
            return PlainReader()
        case Format.CSV:
            return CsvReader()
        case Format.JSON:
            return JsonReader(decoder)
        case Format.EXPORT:
            return ExportReader(decoder)
        case Format.VERBOSE:
            return VerboseReader(clock, decoder)
        case _:
            return _READERS[kind](clock)


_ORIGINS = {
    "systemd": Origin.MANAGER,
    "init.scope": Origin.MANAGER,  # with-unit
    "kernel": Origin.KERNEL,
    "systemd-journald": Origin.JOURNALD,
    "systemd-journald.service": Origin.JOURNALD,
    "other": Origin.OTHER,  # in a tail
}


def _written_by(ident: str, pid: str | None, row: Row, *, host: str) -> Row:
    origin = _ORIGINS.get(ident, Origin.SERVICE)
    fields = {"SYSLOG_IDENTIFIER": ident, "_HOSTNAME": host}
    if origin is Origin.MANAGER:
        fields |= read_manager_line(row.text) or {}
    elif origin is Origin.JOURNALD:
        fields |= read_suppressed(row.text) or {}
    return replace(row, pid=int(pid) if pid else None, origin=origin, fields=fields, stream=f"{ident}[{pid}]")


def _text(raw: bytes) -> str:
    """A physical line; a carriage return at its end belongs to the line break."""
    return read_text(raw.rstrip(b"\r"))
