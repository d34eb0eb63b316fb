"""The practice log file answers the bot's script as a host's shell does."""

from __future__ import annotations

import asyncio

import pytest

from bot.clock import Clock
from bot.core.log_file import FilePosition, LogFileDecoder
from bot.core.redact import Redactor
from bot.practice.log_file import FileStream, LogFile
from bot.practice.systemctl import Answer

pytestmark = pytest.mark.looptime
PATH = "/var/log/kimi.log"


class Ear:
    def __init__(self, place: FilePosition | None = None) -> None:
        self.decoder = LogFileDecoder(Redactor(), position=place)
        self.texts: list[str] = []

    async def hear(self, text: str) -> None:
        self.texts += [line.text for line in self.decoder.feed(text.encode())]


def make(*lines: str) -> LogFile:
    file = LogFile(Clock(), PATH)
    stream = FileStream(file)
    for line in lines:
        stream.write(line.encode() + b"\n", pid=1, comm="python")
    stream.close()
    return file


async def read(file: LogFile, inode: str, offset: str, mode: str) -> tuple[Answer, list[str]]:
    ear = Ear(FilePosition(int(inode), int(offset)))
    answer = await file.read((inode, offset, "0", mode), ear.hear)
    return answer, ear.texts


async def test_once_is_all_or_the_end_of_it() -> None:
    file = make("one", "two", "three")
    assert await read(file, "0", "0", "once") == (Answer(0), ["one", "two", "three"])
    assert await read(file, "0", "8", "once") == (Answer(0), ["three"])


async def test_the_end_names_inode_and_size() -> None:
    answer, _ = await read(make("one"), "0", "0", "end")
    inode, size, seen = map(int, answer.output.split())
    assert (inode > 0, size, seen > 0) == (True, 4, True)


async def test_a_follower_goes_through_a_rotation_and_another_goes_on_from_the_old_file() -> None:
    file, ear = make("one"), Ear()
    task = asyncio.create_task(file.read(("0", "0", "0", "follow"), ear.hear))
    await asyncio.sleep(1)
    place = ear.decoder.position
    file.write(b"two\n")
    file.rotate()
    file.write(b"three\n")
    await asyncio.sleep(1)
    assert ear.texts == ["one", "two", "three"]
    task.cancel()
    _, texts = await read(file, str(place.inode), str(place.offset), "once")
    assert texts == ["two", "three"]
    _, texts = await read(file, "1", "99", "once")
    assert texts == ["three"]
    assert file.text == "one\ntwo\nthree\n"


async def test_what_is_not_there_or_not_readable() -> None:
    file = LogFile(Clock(), PATH)
    assert (await read(file, "0", "0", "once"))[0].status == 66
    file.write(b"x\n")
    file.unreadable = True
    assert (await read(file, "0", "0", "follow"))[0].status == 77
