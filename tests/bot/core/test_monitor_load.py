"""What engines tell of their queues."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.monitor_events import LoadSeen
from bot.core.monitor_load import parse_loads, parse_metrics

SGLANG = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="kimi",tp_rank="0"} 8.0
sglang:num_queue_reqs{model_name="kimi",tp_rank="0"} 41.0
sglang:token_usage{model_name="kimi",tp_rank="0"} 0.93
"""
VLLM = """vllm:num_requests_running{engine="0",model_name="a b"} 3.0
vllm:num_requests_running{engine="1",model_name="a b"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 1.0
vllm:num_requests_waiting{engine="1",model_name="a b"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="a b"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="a b"} 1.0
"""


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (SGLANG, LoadSeen(41, 8, 0.93)),
        (VLLM, LoadSeen(3, 7, 1.0)),
        ("llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n", LoadSeen(5, 2)),
        ("tgi_queue_size 5\n", LoadSeen(5, 0)),
        ("vllm:num_requests_waiting 5 1717000000000\n", LoadSeen(5, 0)),
        ("vllm:num_requests_waiting NaN\n", None),
        ("vllm:num_requests_waiting_total 5\n", None),
        ("python_gc_objects_collected_total 9\n", None),
        ("<html>404</html>", None),
        ("", None),
    ],
)
def test_metrics(text: str, load: LoadSeen | None) -> None:
    assert parse_metrics(text) == load


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ('{"num_running_reqs": 8, "num_waiting_reqs": 41, "token_usage": 0.93}', LoadSeen(41, 8, 0.93)),
        ('[{"num_running_reqs": 1, "num_waiting_reqs": 2}, {"num_waiting_reqs": 3}]', LoadSeen(5, 1)),
        ('{"loads": [{"num_waiting_reqs": 2, "token_usage": 2}]}', LoadSeen(2, 0, 1.0)),
        ('{"error": "Unauthorized"}', None),
        ("[1, null]", None),
        ("7", None),
        ("no json", None),
    ],
)
def test_loads(text: str, load: LoadSeen | None) -> None:
    assert parse_loads(text) == load


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert parse_metrics(text) is None or isinstance(parse_metrics(text), LoadSeen)
    assert parse_loads(text) is None or isinstance(parse_loads(text), LoadSeen)
