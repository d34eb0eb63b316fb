"""Facts without more claim the least."""

from __future__ import annotations

from bot.core.monitor_events import Checked, HostChecked
from bot.core.monitor_state import Sight


def test_a_round_without_more_claims_no_operation_and_a_host_in_sight() -> None:
    checked = Checked(None, {})
    assert checked.operation is None
    assert checked.sight is Sight.SEEN
    assert checked.inside is None


def test_nothing_answers_past_ssh_unless_it_was_seen_to() -> None:
    assert HostChecked("refused").answering == ()
