"""What a startup leaves behind once it is over: the account for the history, and its waterfall."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.account import Account, Changed, Failure, account_of
from bot.core.actions import Verdict
from bot.core.baseline import phase_key
from bot.core.changes import spell_change
from bot.core.events import PhaseId, Role, Verb
from bot.core.picture import Subject, Waterfall, make_waterfall
from bot.core.picture_words import say_where
from bot.core.startup_scene import elapsed, host_now
from bot.core.startup_setup import changes_of
from bot.core.words import Searched, spell_duration, spell_usual

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.startup_scene import Scene
    from bot.core.startup_state import StartupState

_MOST_CHANGES = 40  # more is another deployment, which its thread tells


def has_picture(state: StartupState, verb: Verb) -> bool:
    """A start that came to a verdict, and in which a phase was seen."""
    judged = state.verdict in {Verdict.HEALTHY, Verdict.FAILED}
    return judged and verb is not Verb.STOP and bool(state.tracker.spans.records)


def account_startup(scene: Scene) -> Account:
    account = account_of(
        scene.tracker.phases(),
        until=_end(scene),
        took=elapsed(scene),
        failure=_failure(scene.state),
        engine=scene.engine.name,
    )
    return replace(account, versions=_versions(scene.state), changed=_changed(scene))


def _changed(scene: Scene) -> Changed | None:
    """As it was told in its thread: setups are masked before anybody compares them."""
    changes, last = changes_of(scene.plan, scene.state), scene.plan.last
    if not changes or last is None:
        return None
    told = tuple(spell_change(each) for each in changes[:_MOST_CHANGES])
    return Changed(told, len(changes) - len(told), last.at)


def _versions(state: StartupState) -> dict[str, str]:
    """As far as the members' setups tell; they are one service, and run the same."""
    return {name: told for setup in state.setup.seen.values() for name, told in setup.versions.items()}


def _failure(state: StartupState) -> Failure | None:
    """A state that was saved by an older version holds the sentence alone."""
    wrong = _wrong(state)
    if state.failure is not None or wrong is None:
        return state.failure
    return Failure(state.cause or "", *wrong)


def picture_startup(scene: Scene) -> Waterfall | None:
    state, plan = scene.state, scene.plan
    wrong, failure = _wrong(state), state.failure
    took, usual = elapsed(scene), plan.usual.whole
    verdict = f"{Searched.HEALTHY} after {spell_usual(took, usual)}"
    if wrong is not None:
        verdict = f"{Searched.FAILED} after {spell_duration(took)} {say_where(*wrong)}"
    subject = Subject(
        title=plan.service,
        verdict=verdict,
        sign="✓" if wrong is None else "✗",
        until=_end(scene),
        wrong=wrong,
        rank=failure.rank if failure is not None else None,
        also=failure.also if failure is not None else "",
        also_rank=failure.also_rank if failure is not None else None,
        cause=state.cause or "" if wrong is not None else "",
        usual=plan.usual,
    )
    return make_waterfall(subject, scene.tracker.phases())


def _end(scene: Scene) -> datetime:
    return host_now(scene.state, scene.state.ended or scene.now)


def _wrong(state: StartupState) -> tuple[PhaseId, Role] | None:
    """The phase that failed, by the key it was filed under."""
    if state.verdict is not Verdict.FAILED:
        return None
    keys = {phase_key(phase, role): (phase, role) for phase in PhaseId for role in Role}
    return keys.get(state.failed_phase or "", (PhaseId.PROCESS, Role.TARGET))
