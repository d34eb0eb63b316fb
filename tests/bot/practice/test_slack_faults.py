"""Faults on order, as often as ordered."""

from __future__ import annotations

from bot.practice.slack_faults import SOCKET, UPLOAD, FaultPlan, Status


def test_faults_are_taken_in_order_and_used_up() -> None:
    plan = FaultPlan()
    plan.add("chat.postMessage", plan.status(500), times=2)
    plan.add("chat.postMessage", plan.error("fatal_error"))
    taken = [plan.take("chat.postMessage") for _ in range(4)]
    assert taken == [Status(500), Status(500), plan.error("fatal_error"), None]


def test_a_fault_is_for_its_method() -> None:
    plan = FaultPlan()
    plan.add("chat.update", plan.status(500))
    assert plan.take("chat.postMessage") is None
    assert plan.take("chat.update") == Status(500)


def test_everything_is_the_web_api_alone() -> None:
    plan = FaultPlan()
    plan.add("*", plan.status(503), times=None)
    assert plan.take("auth.test") == plan.take("chat.update") == Status(503)
    assert plan.take(SOCKET) is None
    assert plan.take(UPLOAD) is None


def test_faults_can_be_lifted() -> None:
    plan = FaultPlan()
    plan.add("chat.update", plan.hang(3), times=None)
    plan.add("auth.test", plan.drop_socket(delivered=True))
    plan.clear("chat.update")
    assert plan.take("chat.update") is None
    plan.clear()
    assert plan.take("auth.test") is None


def test_a_fault_may_be_meant_for_some_calls_alone() -> None:
    plan = FaultPlan()
    plan.add("*", plan.status(503), times=None, where=lambda arguments: arguments.get("channel") == "C1")
    assert plan.take("chat.update", {"channel": "C2"}) is None
    assert plan.take("chat.update", {"channel": "C1"}) == Status(503)
    assert plan.take("auth.test") is None
    assert plan.hits == [("*", Status(503))]
