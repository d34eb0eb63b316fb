"""The present as it is shown: evidence, what it waits for, who cannot be seen."""

from __future__ import annotations

from datetime import timedelta

from bot.core.events import HostLost, PhaseId, VerbSent
from tests.support.startup_runs import MEMBER, OLD, OTHER, Run, make_plan


def test_the_last_sign_of_life() -> None:
    run = Run()
    run.begin()
    assert run.startup.view(run.now).last_sign is None
    run.start_process()
    run.wait(12)
    assert run.startup.view(run.now).last_sign == timedelta(seconds=12)


def test_a_host_out_of_sight_is_named_with_its_reason() -> None:
    run = Run()
    run.start_process()
    run.tell(HostLost(MEMBER, "link lost"))
    run.wait(20)
    assert run.startup.view(run.now).lost == "llm-two cannot be seen for 20s: link lost"


def test_what_the_proof_waits_for_is_told_once_the_log_says_ready() -> None:
    run = Run()
    run.start_process()
    run.load_weights()
    run.open_server()
    run.say("The server is fired up and ready to roll!")
    run.observe(need_daemon_reload=True)
    notes = run.startup.view(run.now).notes
    assert notes[0] == "the engine says ready; waiting for /health (503)"
    assert "daemon-reload" in notes[1]


def test_ready_is_told_while_it_must_hold() -> None:
    run = Run()
    run.run_to_ready()
    view = run.startup.view(run.now)
    assert view.phase is PhaseId.READY
    assert "must hold for 30s" in view.notes[0]
    assert view.eta is None


def test_several_members_are_several_hosts() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    run.tell(VerbSent(MEMBER))
    assert run.startup.view(run.now).hosts == ("llm-two", "llm-three")
