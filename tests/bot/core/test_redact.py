"""No seeded secret survives, wherever it stands; nothing else is touched."""

from __future__ import annotations

import shlex
import time
from json import dumps

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.redact import BLOCK_LINES, BLOCK_SILENCE, OUTLINED, OUTLINES, Redactor

KEY = "K9-tellNobody_77x"
HF = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3l"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJraW1pIn0.c2lnbmF0dXJlLW9mLWtpbWk"

# What stands around a secret; `{}` is the secret, and all but it stays as it is.
PLACES = [
    "server_args=ServerArgs(model_path='/m', api_key='{}', tokenizer_path='/t', admin_api_key=None)",
    "server_args={{'api_key': '{}', 'ssl_keyfile_password': None, 'tp_size': 8}}",
    'non-default args: {{"api_key": "{}", "port": 1}}',
    '{{"api_key":"{}","port":1}}',
    'said {{\\"api_key\\": \\"{}\\", \\"port\\": 1}}',
    "Namespace(admin_api_key='{}', port=1)",
    "api_key=SecretStr('{}'), port=1",
    "(b'x-api-key', b'{}'), (b'accept', b'*/*')",
    "python -m sglang.launch_server --api-key {} --port 30000",
    "python -m sglang.launch_server --api-key={} --port 30000",
    "python -m sglang.launch_server --admin-api-key '{}' --port 30000",
    'python -m sglang.launch_server --api-key="{}" --port 30000',
    "['python3', '--api-key', '{}', '--port', '30000']",
    'ExecStart=/usr/bin/python3 "--api-key={}" --port 30000',
    "--ssl-keyfile-password {} --ssl-certfile /etc/c.pem",
    "ssl_keyfile_password='{}', ssl_certfile='/etc/c.pem'",
    "--hf-token {} --revision main",
    "HF_TOKEN={} python3 serve.py",
    "export SLACK_SIGNING_SECRET={}",
    "environ({{'HF_TOKEN': '{}', 'HOME': '/root'}})",
    "os.environ['WANDB_API_KEY'] = '{}'",
    "REDIS_PASSWORD='{}' redis-cli",
    "AWS_SECRET_ACCESS_KEY={}",
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' http://127.0.0.1:30000/v1/models",
    "headers={{'authorization': 'Bearer {}', 'accept': '*/*'}}",
    "Authorization: Basic {}",
    "redis://:{}@cache.example:6379/0",
    "https://alice:{}@hub.example/models/x?revision=main",
    '"GET /ws?token={}&x=1 HTTP/1.1" 101',
    "\x1b[32mapi_key\x1b[0m=\x1b[33m'{}'\x1b[0m, \x1b[32mport\x1b[0m=1",
    "python3\0--api-key\0{}\0--port\0001",
]

LOOKS = [
    HF,
    "sk-proj-4kQ2mZ8xN1vB7cT5",
    "sk-ant-api03-kPq81LmZ",
    "xoxb-2211334455-abcdefGHIJ",
    "xoxe.xoxp-1-AbCdEfGh12",
    "xapp-1-A0B1C2D3-998877-abcdef",
    "AKIAQZ7XK3MNP5RTVWYB",
    "ASIAQZ7XK3MNP5RTVWYB",
    JWT,
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "nvapi-Zk3mN8pQ2rT5vX7yB1cD",
]

HARMLESS = [
    "server_args=ServerArgs(model_path='/m', api_key=None, ssl_keyfile_password=None, api_key='', tp_size=8)",
    "{'api_key': None, 'hf_token': None, 'admin_api_key': null, 'password': ''}",
    "Prefill batch, #new-seq: 1, #new-token: 128, #cached-token: 0, token usage: 0.00, #pending-token: 0",
    "Decode batch, #running-req: 3, #token: 4567, token usage: 0.01, gen throughput (token/s): 123.45",
    "max_total_num_tokens=401234, chunked_prefill_size=8192, max_prefill_tokens=16384, context_len=262144",
    "tokenizer_path='/models/kimi', tokenizer_mode='auto', skip_tokenizer_init=False, --tokenizer-path /m",
    "#words: 163840 - BOS ID: 163584 - EOS ID: 163585, BOS token id: 163584, eos_token='<|im_end|>'",
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 123, KV size: 1.00 GB",
    "DFLASH draft runner ready. mask_token=<|MASK|>, mask_token_id=163840, mask_token_id_override=None",
    "Local HF snapshot at /srv/cache/hub/models--a--b/snapshots/989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
    "/models/Kimi-K2.5/model-00012-of-000064.safetensors: sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "Please set a HF_TOKEN to enable higher rate limits. An --api-key is needed; --api-key, --admin-api-key",
    "Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
    "distributed_init_method=tcp://10.0.0.7:29500 backend=nccl, see https://docs.example/a@b#token",
    "hf_config, hf_transfer and hf_quantization_config_overrides are set; task-2026-kimi on disk-0123456789",
    'INFO:     127.0.0.1:5555 - "GET /v1/models HTTP/1.1" 401 Unauthorized',
    "\rLoading safetensors checkpoint shards:  19% Completed | 12/64 [00:11<00:14,  2.45it/s]",
    "\rCapturing batches (bs=160 avail_mem=8.01 GB):  12%|#2        | 3/24 [00:05<00:36,  1.70s/it]",
    "Load weight end. elapsed=33.49 s, type=KimiK25ForConditionalGeneration, mem usage=73.01 GB.",
    "sorted(results, key=lambda x: x.token) raised KeyError: 'secret'",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_masked_and_nothing_else(place: str) -> None:
    text, places = Redactor().redact(place.format(KEY))
    assert KEY not in text
    expected = place.format("[masked]").replace("alice:[masked]", "[masked]").replace("//:[", "//[")
    assert (text, places) == (expected, 1)


@pytest.mark.parametrize("secret", LOOKS)
@pytest.mark.parametrize("place", ["{}", "login with {}, then wait", "'{}'", "x={}", "/{}/"])
def test_a_secret_is_known_by_its_looks(secret: str, place: str) -> None:
    assert Redactor().redact(place.format(secret)) == (place.format("[masked]"), 1)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_line_stays(text: str) -> None:
    assert Redactor().redact(text) == (text, 0)


@pytest.mark.parametrize("quoted", ["it's", 'say "x"', "a b", "back\\slash", "comma,semi;paren)", "%40&=?#/"])
def test_a_secret_of_odd_characters(quoted: str) -> None:
    secret = f"Zq7{quoted}-9xK"
    for text in (
        f"api_key={secret!r}, port=1",
        f"--api-key {shlex.quote(secret)} --port 1",
        f"--api-key={shlex.quote(secret)} --port 1",
        dumps({"api_key": secret, "port": 1}),
        dumps(dumps({"api_key": secret, "port": 1})),
    ):
        masked, places = Redactor().redact(text)
        assert places == 1
        assert not any(part in masked for part in (secret, "Zq7", "9xK"))
        assert "port" in masked


def test_a_list_of_keys_is_masked_whole() -> None:
    assert Redactor().redact("api_key=['one-1', 'two-2'], port=1") == ("api_key=[masked], port=1", 1)


def test_an_unterminated_value_is_masked_to_the_end() -> None:
    assert Redactor().redact("api_key='abc def") == ("api_key='[masked]", 1)


def test_several_places_are_counted() -> None:
    text = f"--api-key {KEY} --admin-api-key {KEY} {HF} api_key=None"
    assert Redactor().redact(text) == ("--api-key [masked] --admin-api-key [masked] [masked] api_key=None", 3)


def test_known_secrets_are_masked_in_every_spelling() -> None:
    redactor = Redactor(["p/s w", "p/s word", "ab"])
    assert redactor.redact("saw p/s word here") == ("saw [masked] here", 1)
    assert redactor.redact("saw p%2Fs%20word here") == ("saw [masked] here", 1)
    assert redactor.redact("ab is too short, so is p/s w") == ("ab is too short, so is p/s w", 0)


def test_colour_within_a_secret_hides_nothing() -> None:
    assert Redactor().redact(f"is \x1b[1m{HF[:9]}\x1b[0m{HF[9:]}\x1b[0m.") == (
        "is \x1b[1m[masked]\x1b[0m.",
        1,
    )


def test_a_private_key_in_one_text() -> None:
    for separator in ("\n", "\\n"):
        text = separator.join(
            ["x -----BEGIN EC PRIVATE KEY-----", "MHcCAQ", "-----END EC PRIVATE KEY----- y"]
        )
        masked, places = Redactor().redact(text)
        assert "MHcCAQ" not in masked
        assert (masked[:2], masked[-2:], places) == ("x ", " y", 1)


def test_a_private_key_over_lines() -> None:
    redactor = Redactor()
    lines = [
        "loading key -----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
        "  QyNTUxOQAA",
        "[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB",
        "AAAA==",
        "-----END OPENSSH PRIVATE KEY----- done",
        "AbcdEFGH",
    ]
    assert [redactor.redact_line(line)[0] for line in lines] == [
        lines[0],
        "[masked]",
        "  [masked]",
        lines[3],
        "[masked]",
        lines[5],
        lines[6],
    ]


def test_a_private_key_that_never_ends_masks_only_so_much() -> None:
    redactor = Redactor()
    redactor.redact_line("-----BEGIN PRIVATE KEY-----")
    silent = [redactor.redact_line("not of it")[0] for _ in range(BLOCK_SILENCE)]
    assert silent == ["not of it"] * BLOCK_SILENCE
    assert redactor.redact_line("plainword") == ("plainword", 0)

    redactor.redact_line("-----BEGIN PRIVATE KEY-----")
    for _ in range(BLOCK_LINES):
        assert redactor.redact_line("AbcdEFGH") == ("[masked]", 1)
    assert redactor.redact_line("AbcdEFGH") == ("AbcdEFGH", 0)


@pytest.mark.parametrize("secret", LOOKS)
def test_a_secret_that_has_just_begun_is_masked(secret: str) -> None:
    for at in range(6, len(secret)):
        text, places = Redactor().redact_beginning("token " + secret[:at])
        assert (text, places) == ("token [masked]", 1)


def test_a_known_secret_that_has_just_begun_is_masked() -> None:
    redactor = Redactor(["correct-horse-battery"])
    assert redactor.redact_beginning("it is correct-ho") == ("it is [masked]", 1)
    assert redactor.redact_beginning("it is cor") == ("it is cor", 0)


def test_a_text_is_never_cut_within_a_secret() -> None:
    text = f"x api_key='{KEY}' y"
    begin = text.index(KEY)
    for at in range(len(text) + 1):
        inside = begin < at < begin + len(KEY)
        assert Redactor().cut_before(text, at) == (begin if inside else at)


@settings(max_examples=100, deadline=None)
@given(
    place=st.sampled_from(PLACES),
    before=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40),
    after=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40),
)
def test_no_surroundings_save_a_secret(place: str, before: str, after: str) -> None:
    text, places = Redactor().redact(f"{before} {place.format(KEY)} {after}")
    assert KEY not in text
    assert places >= 1


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80) | st.lists(st.sampled_from([*PLACES, *LOOKS, *HARMLESS])).map(" ".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    once, _ = Redactor().redact(text)
    assert Redactor().redact(once) == (once, 0)


NUMBERED = st.lists(
    st.sampled_from([*PLACES, *LOOKS, *HARMLESS, KEY, "K9", "\ud800", "İ", "\u212a", "\t", "x" * OUTLINED])
    | st.text(st.sampled_from("tokenhf_-sk:/@0123456789=KEY "), max_size=12)
).map(" ".join)
REMEMBERING = Redactor([KEY])


@given(text=NUMBERED, digit=st.sampled_from("0179"))
def test_what_is_remembered_of_an_outline_is_true_of_every_line_of_it(text: str, digit: str) -> None:
    for each in (text, "".join(digit if letter in "0123456789" else letter for letter in text)):
        assert REMEMBERING.plain(each) == (each.isprintable() and REMEMBERING.quiet(each))


def test_outlines_are_remembered_up_to_a_limit() -> None:
    redactor = Redactor()
    for number in range(OUTLINES + 9):
        word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        assert redactor.plain(f"{word} {number}")
    assert redactor.plain("Decode batch 5") and not redactor.plain("token=5")  # noqa: PT018 - one after the other


HOSTILE = """
api_key=' -- :// ://a: @ -----BEGIN.PRIVATE.KEY----- eyJaaaaaaaa. \\' api_key=[( token= long_name_token hf_
secret=\\
Bearer. --x- password, AKIA \x1b[ \x1b] -----END.PRIVATE.KEY----- authorization: api_key=\\" ,) =[ \x00 xox.-
"""


@pytest.mark.parametrize("unit", HOSTILE.split())
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    text = unit.replace(".", " ") * (200_000 // len(unit))
    began = time.process_time()
    Redactor().redact(text)
    Redactor().redact_beginning(text)
    assert time.process_time() - began < 4
