"""What the practice service may do: one short script a scenario, by family."""

from __future__ import annotations

from bot.practice.scenarios import causes, failing, hanging, loading, measured, outages
from bot.practice.scenarios.stage import Scenario, Script, Stage

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for family in (
        loading.SCENARIOS,
        hanging.SCENARIOS,
        failing.SCENARIOS,
        causes.SCENARIOS,
        measured.SCENARIOS,
        outages.SCENARIOS,
    )
    for scenario in family
}

__all__ = ["SCENARIOS", "Scenario", "Script", "Stage"]
