"""Later and later, up to a bound; what is gone or well again is forgotten."""

from __future__ import annotations

from bot.put_off import PutOff


async def test_each_time_it_waits_twice_as_long_up_to_a_bound() -> None:
    off = PutOff()
    assert not off.waits("one")
    assert [off.defer("one") for _ in range(8)] == [4, 8, 16, 32, 64, 128, 256, 300]
    assert off.waits("one")
    assert not off.waits("other")


async def test_what_came_to_its_end_begins_anew() -> None:
    off = PutOff()
    for _ in range(3):
        off.defer("one")
    off.forget("one")
    assert not off.waits("one")
    assert off.defer("one") == 4


async def test_what_is_gone_is_not_remembered() -> None:
    off = PutOff()
    for name in ("one", "two"):
        off.defer(name)
    off.keep(["two", "three"])
    assert len(off) == 1
    assert off.waits("two")


async def test_what_breaks_in_the_same_way_again_is_no_news() -> None:
    off, one, other = PutOff(), LookupError("one"), LookupError("other")
    off.defer("a")
    assert off.news("a", one) is one
    assert off.news("a", LookupError("one")) is None
    assert off.news("a", other) is other
    assert off.news("b", other) is other
    off.forget("a")
    assert off.news("a", other) is other
    off.defer("b")
    off.keep(["a"])
    assert off.news("b", other) is other
