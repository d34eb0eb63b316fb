"""Phase records and pasts as the pictures' tests need them: a start on any number of ranks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.account import Account, PastStartup, account_of
from bot.core.actions import Verdict
from bot.core.baseline import Usual
from bot.core.events import OperationId, PhaseId, Rank, Role, UserId, Verb
from bot.core.findings import PhaseRecord, RankSpan
from bot.core.picture import Subject, Waterfall, make_waterfall

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
USUAL = Usual({"weights": (310.0,), "graphs": (45.0,), "whole": (460.0,)})


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def phase(
    which: PhaseId,
    began: float,
    ended: float | None,
    *,
    ranks: dict[str, float | None] | None = None,
    role: Role = Role.TARGET,
) -> PhaseRecord:
    """`ranks`: when each left the phase; None: it never did."""
    spans = {
        Rank(rank): RankSpan(at(began), None if left is None else at(left))
        for rank, left in (ranks or {}).items()
    }
    return PhaseRecord(which, role, at(began), None if ended is None else at(ended), None, spans)


def loads(ranks: int) -> dict[str, float | None]:
    """TP5 is the slowest, at 349 s; TP2 the fastest, at 296 s; the others in between."""
    left: dict[str, float | None] = {f"TP{number}": 320.0 + number % 7 for number in range(ranks)}
    return left | {rank: ended for rank, ended in (("TP5", 349.0), ("TP2", 296.0)) if rank in left}


def start(ranks: int = 8, *, draft: bool = False) -> list[PhaseRecord]:
    """A healthy one of 451 s: 304 s of weights, 48 s of graphs, a compilation inside the warm-up."""
    all_at_once: dict[str, float | None] = {f"TP{number}": 403.0 for number in range(ranks)}
    records = [
        phase(PhaseId.STOPPING, 0, 14),
        phase(PhaseId.PROCESS, 14, 23),
        phase(PhaseId.DISTRIBUTED, 23, 45, ranks=dict.fromkeys(all_at_once, 45.0)),
        phase(PhaseId.WEIGHTS, 45, 349, ranks=loads(ranks)),
        phase(PhaseId.GRAPHS, 355, 403, ranks=all_at_once),
        phase(PhaseId.WARMUP, 403, 421),
        phase(PhaseId.COMPILE, 405, 415),
        phase(PhaseId.READY, 421, 451),
    ]
    if draft:
        records.insert(5, phase(PhaseId.WEIGHTS, 403, 403, ranks=all_at_once, role=Role.DRAFT))
    return records


def failing() -> list[PhaseRecord]:
    """TP3 never gets through its weights, and after 182 s all is over."""
    ranks = {f"TP{number}": 160.0 + number for number in range(8)} | {"TP3": None}
    return [phase(PhaseId.PROCESS, 0, 23), phase(PhaseId.WEIGHTS, 23, None, ranks=ranks)]


def healthy_waterfall(ranks: int = 8, *, draft: bool = False) -> Waterfall:
    subject = Subject("kimi-k2.5", "healthy after 7m31s (usual 7m40s)", usual=USUAL)
    made = make_waterfall(subject, start(ranks, draft=draft))
    assert made is not None
    return made


def failed_waterfall(**more: Any) -> Waterfall:
    subject = Subject(
        "kimi-k2.5",
        "failed after 3m02s in weights",
        sign="✗",
        until=at(182),
        wrong=(PhaseId.WEIGHTS, Role.TARGET),
        rank=Rank("TP3"),
        cause="Out of GPU memory",
        **more,
    )
    made = make_waterfall(subject, failing())
    assert made is not None
    return made


def account(*, good: bool = True) -> Account:
    records, took = (start(), 451) if good else (failing(), 182)
    return account_of(records, until=at(took), took=timedelta(seconds=took), failure=None, engine="sglang")


def past(
    days_ago: int = 1,
    verdict: Verdict = Verdict.HEALTHY,
    *,
    verb: Verb = Verb.RESTART,
    known: Account | None = None,
    link: str | None = "https://practice.slack.example/archives/C1/p1",
) -> PastStartup:
    good = verdict is Verdict.HEALTHY
    return PastStartup(
        operation=OperationId(f"op{days_ago}"),
        verb=verb,
        verdict=verdict,
        began=BEGAN - timedelta(days=days_ago),
        took=timedelta(seconds=460 if good else 190),
        by=UserId("U0ALICE"),
        account=account(good=good) if known is None else known,
        link=link,
    )
