"""A Slack in a hurry: what its true pace costs in waiting is spent by the tests that are about that pace."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import bot.app as app_module
from bot.clients.slack import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.practice.slack import PracticeSlack

# With a clock that runs a hundred times as fast, a message a second would be one in two minutes.
PACE = Pace(post_interval=0.02, post_burst=5, edit_interval=0.1, edit_burst=5, root_interval=0.3)


@contextmanager
def hurried(slack: PracticeSlack) -> Iterator[None]:
    """Bots that are built meanwhile post as fast as they can, and `slack` lets them."""
    sound = vars(app_module)["Outbox"]
    slack.rates.limits = {}
    vars(app_module)["Outbox"] = partial(sound, pace=PACE)
    try:
        yield
    finally:
        vars(app_module)["Outbox"] = sound
