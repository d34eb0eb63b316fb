"""Pacing: rates held to the letter, nothing lost, nobody starved, methods parked one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.pacing import POST, UPDATE, Bucket, Does, Pace, Pacing, Step, Waiting

PACE = Pace(post_interval=1.0, post_burst=3, edit_interval=2.0, edit_burst=2, root_interval=3.0)


def reply(thread: str = "a", channel: str = "C1") -> Waiting:
    return Waiting(thread, channel, head=(POST,))


def edit(thread: str = "a") -> Waiting:
    return Waiting(thread, "C1", edit=True)


def test_a_burst_then_one_a_second() -> None:
    pacing = Pacing(PACE)
    steps = [pacing.choose(reply(), 0.0) for _ in range(4)]
    assert steps == [Step(Does.HEAD)] * 3 + [Step(Does.WAIT, 1.0)]
    assert pacing.choose(reply(), 1.0) == Step(Does.HEAD)


def test_channels_do_not_hold_each_other_up() -> None:
    pacing = Pacing(PACE)
    for _ in range(3):
        pacing.choose(reply(), 0.0)
    assert pacing.choose(reply(), 0.0).does is Does.WAIT
    assert pacing.choose(reply("b", "C2"), 0.0) == Step(Does.HEAD)


def test_a_root_is_edited_seconds_apart() -> None:
    pacing = Pacing(PACE)
    assert pacing.choose(edit(), 10.0) == Step(Does.EDIT)
    assert pacing.choose(edit(), 11.0) == Step(Does.WAIT, 2.0)
    assert pacing.choose(edit(), 13.0) == Step(Does.EDIT)


def test_all_roots_share_one_budget() -> None:
    pacing = Pacing(PACE)
    assert [pacing.choose(edit(name), 0.0).does for name in "ab"] == [Does.EDIT, Does.EDIT]
    assert pacing.choose(edit("c"), 0.0) == Step(Does.WAIT, 2.0)


def test_the_default_budget_is_fifty_edits_a_minute() -> None:
    pacing = Pacing(Pace())
    sent = [
        (tick, name)
        for tick in range(600)
        for name in range(100)
        if pacing.choose(edit(str(name)), tick / 10).does is Does.EDIT
    ]
    assert len(sent) == 49  # and one more when the minute is over


def test_a_transition_goes_before_an_edit() -> None:
    both = Waiting("a", "C1", head=(POST,), edit=True)
    assert Pacing(PACE).choose(both, 0.0) == Step(Does.HEAD)


def test_retry_after_parks_only_its_method() -> None:
    pacing = Pacing(PACE)
    pacing.park(POST, 30.0, 0.0)
    both = Waiting("a", "C1", head=(POST,), edit=True)
    assert pacing.choose(both, 0.0) == Step(Does.EDIT)
    assert pacing.choose(reply(), 0.0) == Step(Does.WAIT, 30.0)
    assert pacing.choose(Waiting("a", "C1", head=("files.completeUploadExternal",)), 0.0) == Step(Does.HEAD)
    assert pacing.choose(reply(), 30.0) == Step(Does.HEAD)


def test_a_rate_met_in_one_channel_holds_up_no_other() -> None:
    pacing = Pacing(PACE)
    pacing.park(POST, 30.0, 0.0, channel="C1")
    assert pacing.choose(reply(), 0.0) == Step(Does.WAIT, 30.0)
    assert pacing.choose(reply("b", "C2"), 0.0) == Step(Does.HEAD)
    pacing.park(UPDATE, 30.0, 0.0, channel="C2")
    assert pacing.choose(edit(), 0.0) == Step(Does.EDIT)


def test_a_rate_met_in_two_channels_at_once_is_the_methods() -> None:
    pacing = Pacing(PACE)
    pacing.park(POST, 30.0, 0.0, channel="C1")
    pacing.park(POST, 20.0, 0.0, channel="C2")
    assert pacing.choose(reply("c", "C3"), 0.0) == Step(Does.WAIT, 20.0)
    assert pacing.choose(reply("c", "C3"), 20.0) == Step(Does.HEAD)
    assert pacing.choose(reply("a", "C1"), 20.0) == Step(Does.WAIT, 10.0)


def test_a_rate_met_in_two_channels_one_after_the_other_is_each_ones() -> None:
    pacing = Pacing(PACE)
    pacing.park(POST, 3.0, 0.0, channel="C1")
    pacing.park(POST, 3.0, 4.0, channel="C2")
    assert pacing.choose(reply("c", "C3"), 4.0) == Step(Does.HEAD)


def test_who_is_parked_holds_no_turn() -> None:
    """A hundred threads of a channel that is parked: the first of another waits for none of them."""
    pacing = Pacing(PACE)
    crowd = [Waiting(f"a{number}", "C1", edit=True) for number in range(100)]
    for waiting in crowd:
        pacing.choose(waiting, 0.0)
    pacing.park(UPDATE, 30.0, 1.0, channel="C1")
    for waiting in crowd:
        pacing.choose(waiting, 1.0)
    late = pacing.choose(Waiting("b", "C2", edit=True), 4.0)
    assert late.does is Does.EDIT or late.seconds <= PACE.edit_interval


def test_what_slack_takes_from_nobody_nobody_sends() -> None:
    pacing = Pacing(PACE)
    pacing.close(8.0, 0.0)
    both = Waiting("a", "C1", head=(POST,), edit=True)
    assert pacing.choose(both, 0.0) == Step(Does.WAIT, 8.0)
    pacing.open()
    assert pacing.choose(both, 1.0) == Step(Does.HEAD)


def test_a_token_that_others_have_used_is_given_back_and_the_turn_kept() -> None:
    pacing = Pacing(PACE)
    assert pacing.choose(reply(), 0.0) == Step(Does.HEAD)
    pacing.postpone(reply(), Does.HEAD, 2.0, 0.0)
    assert pacing.choose(reply("b"), 0.0) == Step(Does.WAIT, 2.0)
    assert [pacing.choose(reply(name), 2.0).does for name in "abaa"] == [*[Does.HEAD] * 3, Does.WAIT]


def test_an_edit_that_was_postponed_is_due_when_the_rate_is_there() -> None:
    pacing = Pacing(PACE)
    assert pacing.choose(edit(), 0.0) == Step(Does.EDIT)
    pacing.postpone(edit(), Does.EDIT, 0.5, 0.0)
    assert pacing.choose(edit(), 0.0) == Step(Does.WAIT, 0.5)
    assert pacing.choose(edit(), 0.5) == Step(Does.EDIT)


def test_a_parked_update_lets_replies_go() -> None:
    pacing = Pacing(PACE)
    pacing.park(UPDATE, 30.0, 0.0)
    assert pacing.choose(edit(), 0.0) == Step(Does.WAIT, 30.0)
    assert pacing.choose(reply(), 0.0) == Step(Does.HEAD)


def test_a_shorter_retry_after_does_not_undo_a_longer_one() -> None:
    pacing = Pacing(PACE)
    pacing.park(POST, 30.0, 0.0)
    pacing.park(POST, 1.0, 0.0)
    assert pacing.choose(reply(), 0.0) == Step(Does.WAIT, 30.0)


def test_a_failed_head_waits_while_its_edits_and_other_threads_go_on() -> None:
    pacing = Pacing(PACE)
    pacing.hold("a", 8.0, 0.0)
    assert pacing.choose(reply(), 0.0) == Step(Does.WAIT, 8.0)
    assert pacing.choose(edit(), 0.0) == Step(Does.EDIT)
    assert pacing.choose(reply("b"), 0.0) == Step(Does.HEAD)


def test_an_edit_that_failed_waits_while_its_head_and_other_threads_go_on() -> None:
    pacing = Pacing(PACE)
    pacing.hold_edit("a", 8.0, 0.0)
    assert pacing.choose(edit(), 0.0) == Step(Does.WAIT, 8.0)
    assert pacing.choose(edit("b"), 0.0) == Step(Does.EDIT)
    assert pacing.choose(Waiting("a", "C1", head=(POST,), edit=True), 0.0) == Step(Does.HEAD)
    pacing.prune(8.0)
    assert pacing._edits_held == {}
    assert pacing.choose(edit(), 8.0) == Step(Does.EDIT)


def test_nothing_to_send_is_rest() -> None:
    assert Pacing(PACE).choose(Waiting("a", "C1"), 0.0) == Step(Does.REST)


def test_first_come_first_served() -> None:
    pacing = Pacing(PACE)
    for _ in range(3):
        pacing.choose(reply("first"), 0.0)
    assert pacing.choose(reply("second"), 0.1).does is Does.WAIT
    assert pacing.choose(reply("first"), 0.2).does is Does.WAIT
    assert pacing.choose(reply("first"), 1.0).does is Does.WAIT  # the token of this second is the second's
    assert pacing.choose(reply("second"), 1.0) == Step(Does.HEAD)


def test_who_left_is_not_waited_for() -> None:
    pacing = Pacing(PACE)
    for _ in range(3):
        pacing.choose(reply(), 0.0)
    pacing.choose(reply("gone"), 0.0)
    pacing.forget("gone", "C1")
    assert pacing.choose(reply("gone", "C1"), 0.0).seconds <= 2.0


def test_pruning_forgets_only_what_holds_nobody_up() -> None:
    pacing = Pacing(PACE)
    pacing.choose(reply(), 0.0)
    pacing.postpone(reply(), Does.HEAD, 0.6, 0.0)
    pacing.forget("a", "C1")
    pacing.choose(edit(), 0.0)
    pacing.park(POST, 1.0, 0.0)
    pacing.hold("a", 1.0, 0.0)
    pacing.prune(0.5)
    assert (len(pacing._channels), len(pacing._edited), len(pacing._parked), len(pacing._held)) == (
        1,
        1,
        1,
        1,
    )
    pacing.prune(10.0)
    assert (len(pacing._channels), len(pacing._edited), len(pacing._parked), len(pacing._held)) == (
        0,
        0,
        0,
        0,
    )


@settings(max_examples=100, deadline=None)
@given(
    burst=st.integers(1, 5),
    interval=st.floats(0.1, 5.0),
    asked=st.lists(st.floats(0.0, 3.0), max_size=60),
)
def test_a_bucket_never_exceeds_its_rate(burst: int, interval: float, asked: list[float]) -> None:
    bucket, now, sent = Bucket(interval, burst), 0.0, list[float]()
    for pause in asked:
        now += pause
        if bucket.ready(now) <= now:
            bucket.take(now)
            sent.append(now)
    assert_rate(sent, burst, interval)


def assert_rate(sent: list[float], burst: int, interval: float) -> None:
    """No window holds more than the burst and what its length allows."""
    for first, begin in enumerate(sent):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + (sent[last] - begin) / interval + 1e-6


threads = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.sampled_from(["C1", "C2"]), st.integers(0, 6)), min_size=1
)
parkings = st.lists(
    st.tuples(st.floats(0, 20), st.sampled_from([POST, UPDATE]), st.floats(0, 10)), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(threads=threads, parkings=parkings)
def test_everything_goes_out_in_order_and_within_the_rate(
    threads: dict[str, tuple[str, int]], parkings: list[tuple[float, str, float]]
) -> None:
    """Each thread has replies and, all the time, an edit; a method is parked now and then."""
    pacing = Pacing(PACE)
    left = {name: count for name, (_, count) in threads.items()}
    posts: dict[str, list[float]] = {"C1": [], "C2": []}
    edits: list[tuple[float, str]] = []
    orders = sorted(parkings)
    now = 0.0
    while (any(left.values()) or now < 20) and now < 200:
        while orders and orders[0][0] <= now:
            _, method, seconds = orders.pop(0)
            pacing.park(method, seconds, now)
        for name, (channel, _) in threads.items():
            waiting = Waiting(name, channel, head=(POST,) if left[name] else (), edit=True)
            match pacing.choose(waiting, now).does:
                case Does.HEAD:
                    left[name] -= 1
                    posts[channel].append(now)
                case Does.EDIT:
                    edits.append((now, name))
                case _:
                    pass
        now += 0.25
    assert not any(left.values())
    for sent in posts.values():
        assert_rate(sent, PACE.post_burst, PACE.post_interval)
    assert_rate([at for at, _ in edits], PACE.edit_burst, PACE.edit_interval)
    for name in threads:
        assert_rate([at for at, editor in edits if editor == name], 1, PACE.root_interval)


@pytest.mark.parametrize("count", [2, 7, 20])
def test_nobody_starves_for_edits(count: int) -> None:
    pacing = Pacing(PACE)
    edited = dict.fromkeys(range(count), 0)
    for tick in range(count * 3 * 20):
        for name in edited:
            if pacing.choose(edit(str(name)), tick / 10).does is Does.EDIT:
                edited[name] += 1
    assert max(edited.values()) - min(edited.values()) <= 1
