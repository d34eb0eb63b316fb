"""An outage whose service is taken off the watch: it ends by itself, and nobody claims that it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot import incident_unwatched, watching
from bot.clients import store_watches
from tests.support.practice import Practice, practise
from tests.support.waiting import until

if TYPE_CHECKING:
    import pytest

WITHIN = 90.0
OFF = "is no longer watched: its monitoring is switched off in the configuration"


async def begin_again(practice: Practice, *, watched: bool) -> None:
    """The bot is restarted with another configuration."""
    await practice.app.close()
    practice.workspace._watched = watched
    practice.app = await practice.workspace.start_app()


async def test_it_is_closed_at_the_next_start_and_the_service_is_as_new_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_watches, "MARK_FOR", 1)
    monkeypatch.setattr(watching, "_MARK_EVERY", 0.25)
    monkeypatch.setattr(incident_unwatched, "AFTER", 0.5)
    async with practise("loops-at-3am", speed=20, watched=True) as practice:

        def outages() -> list[str]:
            return [root.plain for root in practice.roots() if "🔴" in root.text or OFF in root.plain]

        await practice.until(lambda _: outages(), within=WITHIN)
        await begin_again(practice, watched=False)
        await practice.until(lambda _: OFF in outages()[0], within=WITHIN)
        [root] = [each for each in practice.roots() if OFF in each.plain]
        await practice.reply(root, "How it is now is not known.")
        assert "resolved" not in "".join([root.plain, *practice.replies(root)])
        assert 1 + sum(message.broadcast for message in practice.thread(root)[1:]) <= 2
        told = await practice.ask("incidents")
        assert "is open." in told
        assert "over" in told
        await begin_again(practice, watched=True)
        [monitored] = [practice.app._monitor]
        assert monitored is not None
        await until(lambda: any(each.rounds > 3 for each in monitored.watching.values()))
        assert len(outages()) == 1
        assert OFF in outages()[0]
