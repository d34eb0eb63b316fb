"""What a service that has been up left in its journal."""

from __future__ import annotations

from datetime import timedelta

from bot.clock import Clock
from bot.practice.journal import Journal, Stream
from bot.practice.past import write_past
from bot.practice.process import Meter, Process


async def test_a_service_that_has_been_up_left_its_ready_line_and_some_work() -> None:
    clock = Clock()
    journal = Journal(clock)
    now = clock.now()
    process = Process(pid=7, invocation="1", stream=Stream(journal, {}), meter=Meter(clock), began=now)
    write_past(process, since=now - timedelta(hours=3), until=now, pid=8)
    texts = [entry.text("MESSAGE") for entry in journal.entries]
    assert texts[0].endswith("The server is fired up and ready to roll!")
    assert len(texts) == 1 + 3
    assert all("TP0] Decode batch" in text for text in texts[1:])
    times = [entry.realtime for entry in journal.entries]
    assert times == sorted(times)
    assert times[-1] <= now.timestamp() * 1e6
