"""What other tools are told is plain JSON that says everything by itself."""

from __future__ import annotations

import json
from datetime import timedelta

from bot.core.incident_events import Acknowledged, Recovered
from tests.support.incidents import BEGAN, BOB, Case


def test_it_is_plain_json() -> None:
    case = Case()
    case.tell(Acknowledged(BOB), after=240)
    case.tell(Recovered(BEGAN + timedelta(seconds=300)), after=70)
    for payload in case.webhooks():
        assert json.loads(json.dumps(payload)) == payload
    opened, updated, resolved = case.webhooks()
    assert opened["status"] == "open"
    assert opened["signs"][0]["text"] == "process died by SIGSEGV"
    assert opened["began"] == "2026-05-29T03:12:41.000+00:00"
    assert (updated["by"], updated["acknowledged_by"], updated["text"]) == (BOB, BOB, "acknowledged after 4m")
    assert (resolved["status"], resolved["ending"]) == ("resolved", "recovered")
    assert resolved["downtime_seconds"] == 300.0
    assert {each["incident"] for each in case.webhooks()} == {case.plan.incident}
