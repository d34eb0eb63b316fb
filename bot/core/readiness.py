"""The proof that a service is ready: every part named, none assumed.

Healthy = each unit active under the InvocationID that was watched, with no restart in between; the listening
socket belongs to the unit; `/health` 200; `/v1/models` lists the model; the smoke test passed; and all of it
still holds `stable_for` later. `/v1/models` alone answers before warm-up, and an engine that could not bind
its port can still log "ready" (its warm-up talked to the server that holds the port), so neither is enough.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.events import PhaseId

if TYPE_CHECKING:
    from bot.core.events import ProbeAnswer
    from bot.core.startup_state import MemberState, Plan, StartupState

OK = 200
FRESH = timedelta(seconds=10)  # evidence older than this proves nothing about now
UNLISTED_PATIENCE = timedelta(seconds=60)  # health says yes while the model list gives no proper answer
FOREIGN_ANSWERS = 2  # the first may have been under way before the log said ready

# While the log shows one of these, whoever answers on the port is not the engine that is being watched.
LOADING = frozenset({PhaseId.DISTRIBUTED, PhaseId.WEIGHTS, PhaseId.MEMORY, PhaseId.COMPILE, PhaseId.GRAPHS})


def missing_proof(plan: Plan, state: StartupState, current: PhaseId) -> str | None:
    """What is not proven yet, as a short plain sentence; None when unit, socket, health and model are."""
    for name in plan.members:
        lacking = _missing_unit(state.members[name])
        if lacking is not None:
            return f"{name}: {lacking}"
    answer = state.proof.answer
    if answer is None or answer.health != OK:
        return f"waiting for /health ({say_health(answer)})"
    if answer.listener is False:
        return "another process answers on the port"
    if answer.listener is None and current in LOADING and state.proof.said is None:
        return "something answers on the port, but the log says the engine still loads"
    if plan.model is not None and plan.model not in (answer.models or ()):
        return f"waiting for /v1/models to list {plan.model}"
    return None


def _missing_unit(member: MemberState) -> str | None:
    unit = member.unit
    if member.lost is not None:
        return "the host cannot be seen"
    if member.invocation is None or member.provisional:
        return "the new start has not been seen yet"
    if unit is None or unit.invocation != member.invocation:
        return "systemd has not confirmed the new start yet"
    if unit.active != "active" or unit.job is not None:
        return f"systemd says {unit.active} ({unit.sub})"
    if unit.restarts != member.restarts:
        return "systemd restarted it meanwhile"
    return None


def is_fresh(plan: Plan, state: StartupState, now: datetime) -> bool:
    """Whether the last word of every unit and of the engine is recent enough to speak for now."""
    seen = [state.members[name].unit_at for name in plan.members]
    return all(at is not None and now - at <= FRESH for at in (*seen, state.proof.answered))


def is_smoke_done(plan: Plan, state: StartupState) -> bool:
    return not plan.smoke or (state.proof.smoke is not None and state.proof.smoke.passed)


def is_stable(plan: Plan, state: StartupState, now: datetime) -> bool:
    since = state.proof.since
    return since is not None and now - since >= plan.stable_for and is_fresh(plan, state, now)


def is_foreign(answer: ProbeAnswer) -> bool:
    """Somebody answers, and the socket is not the unit's. With nobody listening there is nobody to judge."""
    silent = answer.error is not None and "refused" in answer.error
    return answer.listener is False and not (
        silent and answer.health is None and answer.models_status is None
    )


def wrong_model(plan: Plan, state: StartupState, current: PhaseId) -> str | None:
    """Both ids, when a ready engine lists a model and it is another one."""
    answer = state.proof.answer
    if plan.model is None or answer is None or answer.health != OK or not answer.models:
        return None
    ours = answer.listener or (answer.listener is None and (state.proof.said or current not in LOADING))
    if plan.model in answer.models or not ours or not _all_started(state):
        return None
    return f"it serves {', '.join(answer.models)}, where {plan.model} was expected"


def unlisted_model(state: StartupState, now: datetime) -> str | None:
    """The model list gave no proper answer for too long, though health is 200."""
    since, answer = state.proof.unlisted, state.proof.answer
    if since is None or answer is None or now - since < UNLISTED_PATIENCE:
        return None
    status = f"answers {answer.models_status}" if answer.models_status not in {None, OK} else "names no model"
    hint = "; is the API key right?" if answer.models_status in {401, 403} else ""
    return f"/health is 200, but /v1/models {status}{hint}"


def _all_started(state: StartupState) -> bool:
    return all(each.invocation is not None and not each.provisional for each in state.members.values())


def say_health(answer: ProbeAnswer | None) -> str:
    if answer is None:
        return "not asked yet"
    return str(answer.health) if answer.health is not None else (answer.error or "no answer")
