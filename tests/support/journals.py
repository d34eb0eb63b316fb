"""Writes SGLang startup logs as the versions print them: any ranks, any round, whole or cut short."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

BEGAN = datetime(2026, 5, 29, 23, 49, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Wording:
    """What one version prints. None: it prints nothing there."""

    version: str
    dist_end: str | None
    load_end: str
    kv: str | None
    capture: str  # with {model} and {edge}
    capture_end: str
    bar: str
    capture_bar: str | None
    settled_on_all: bool = False
    pools_last: bool = False  # both models' weights, then both pools, then both graphs
    redraws: bool = False  # the bar ends in no newline between its states


_OLD_BAR = (
    "Loading safetensors checkpoint shards: {pct:3}% Completed | "
    "{done}/{total} [00:{done:02}<00:09,  2.50it/s]"
)
_NEW_BAR = _OLD_BAR.replace("Loading safetensors checkpoint shards", "Multi-thread loading shards")
_CAPTURE_BAR = (
    "Capturing batches (bs=8 avail_mem=8.01 GB): {pct:3}%|##  | {done}/{total} [00:05<00:01,  2.50it/s]"
)
_LONG_CAPTURE = "Capture {model}cuda graph begin. This can take up to several minutes. avail mem=9.75 GB"

_TIMED_END = "Capture {model}cuda graph end. Time elapsed: 12.50 s. mem usage=1.25 GB. avail mem=8.50 GB."
_MODEL_CAPTURE = "Capture {model}decode CUDA graph begin. backend=full, bs=[1, 2, 4], avail mem=9.75 GB"

WORDINGS = {
    each.version: each
    for each in (
        Wording(
            version="0.4.0",
            dist_end=None,
            load_end="Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=31.25 GB",
            kv=None,
            capture="Capture {model}cuda graph begin. This can take up to several minutes.",
            capture_end="Capture {model}cuda graph end. Time elapsed: 12.50 s",
            bar=_OLD_BAR,
            capture_bar="{pct:3}%|##        | {done}/{total} [00:05<00:01,  2.50it/s]",
            settled_on_all=True,
        ),
        Wording(
            version="0.5.8",
            dist_end="Init torch distributed ends. mem usage=1.25 GB",
            load_end="Load weight end. type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16, "
            "avail mem=31.25 GB, mem usage=75.50 GB.",
            kv="KV Cache is allocated. #tokens: 123456, KV size: 17.25 GB",
            capture=_LONG_CAPTURE,
            capture_end=_TIMED_END,
            bar=_OLD_BAR,
            capture_bar=_CAPTURE_BAR,
        ),
        Wording(
            version="0.5.12",
            dist_end="Init torch distributed ends. elapsed=5.25 s, mem usage=1.25 GB",
            load_end="Load weight end. elapsed=45.25 s, type=KimiK25ForConditionalGeneration, "
            "quant=compressed-tensors, avail mem=31.25 GB, mem usage=75.50 GB.",
            kv="KV Cache is allocated. #tokens: 123456, KV size: 17.25 GB",
            capture=_LONG_CAPTURE,
            capture_end=_TIMED_END,
            bar=_NEW_BAR,
            capture_bar=_CAPTURE_BAR,
            redraws=True,
        ),
        Wording(
            version="0.5.18",
            dist_end="Init torch distributed ends. elapsed=5.25 s, mem usage=1.25 GB",
            load_end="Load weight end. elapsed=45.25 s, type=KimiK25ForConditionalGeneration, "
            "quant=compressed-tensors, avail mem=31.25 GB, mem usage=75.50 GB.",
            kv="KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 123456, KV size: 17.25 GB",
            capture=_MODEL_CAPTURE,
            capture_end="Capture {model}decode CUDA graph end. elapsed=12.50 s, mem usage=1.25 GB, "
            "avail mem=8.50 GB.",
            bar=_NEW_BAR,
            capture_bar=_CAPTURE_BAR,
            pools_last=True,
            redraws=True,
        ),
        Wording(
            version="0.5.23",
            dist_end="Init torch distributed ends. elapsed=5.25 s, mem usage=1.25 GB",
            load_end="Load weight end. elapsed=45.25 s, type=KimiK25ForConditionalGeneration, "
            "quant=compressed-tensors, avail mem=31.25 GB, mem usage=75.50 GB.",
            kv="KV Cache is allocated. dtype: torch.bfloat16, #tokens: 123456, KV size: 17.25 GB",
            capture=_MODEL_CAPTURE,
            capture_end="Capture {model}decode CUDA graph end. bs=[1, 2, 4], elapsed=12.50 s, "
            "mem usage=1.25 GB, avail mem=8.50 GB.",
            bar=_NEW_BAR,
            capture_bar=_CAPTURE_BAR,
            pools_last=True,
            redraws=True,
        ),
    )
}


def tp(count: int) -> tuple[str, ...]:
    """Tags of a tensor-parallel start; one rank has no tag."""
    return ("",) if count == 1 else tuple(f"TP{number}" for number in range(count))


@dataclass
class Journal:
    """Grows a log line by line; every method adds what SGLang prints there and advances the clock."""

    wording: Wording
    ranks: tuple[str, ...] = ("",)
    arguments: str = "model_path='/models/kimi', tp_size=8, pp_size=1, dp_size=1, nnodes=1, node_rank=0"
    lines: list[str] = field(default_factory=list)
    now: datetime = BEGAN

    def say(self, text: str, rank: str = "", *, after: float = 0.0) -> Journal:
        self.now += timedelta(seconds=after)
        tag = f" {rank}" if rank else ""
        self.lines.append(f"[{self.now:%Y-%m-%d %H:%M:%S}{tag}] {text}")
        return self

    def bare(self, *lines: str) -> Journal:
        self.lines.extend(lines)
        return self

    def everyone(self, text: str, *, but: tuple[str, ...] = (), after: float = 0.0) -> Journal:
        self.now += timedelta(seconds=after)
        for rank in self.ranks:
            if rank not in but:
                self.say(text, rank)
        return self

    # ---- stations -----------------------------------------------------------------------------------------

    def launched(self) -> Journal:
        return self.say(f"server_args=ServerArgs({self.arguments}, disable_cuda_graph=False)", after=5)

    def connected(self) -> Journal:
        self.everyone("Init torch distributed begin.", after=10)
        self.say("sglang is using nccl==2.27.5", self.ranks[0], after=2)
        if self.wording.dist_end is not None:
            self.everyone(self.wording.dist_end, after=4)
        return self

    def loading(self) -> Journal:
        return self.everyone("Load weight begin. avail mem=138.25 GB", after=1)

    def bars(self, total: int = 4, *, upto: int | None = None) -> Journal:
        done = range((total if upto is None else upto) + 1)
        texts = [self.wording.bar.format(pct=100 * n // total, done=n, total=total) for n in done]
        self.now += timedelta(seconds=len(texts))
        return self.bare("\r" + "\r".join(texts)) if self.wording.redraws else self.bare(*texts)

    def loaded(self, *, but: tuple[str, ...] = ()) -> Journal:
        return self.everyone(self.wording.load_end, but=but, after=40)

    def pooled(self) -> Journal:
        for rank in self.ranks:  # one after the other: a rank may have ended before the next begins
            if self.wording.kv is not None:
                self.say(self.wording.kv, rank)
            self.say("Memory pool end. avail mem=10.25 GB", rank)
        return self

    def capturing(self, model: str = "") -> Journal:
        return self.everyone(self.wording.capture.format(model=model))

    def captured(self, model: str = "") -> Journal:
        if self.wording.capture_bar is not None:
            bar = self.wording.capture_bar
            self.bare("\r" + "\r".join(bar.format(pct=25 * n, done=n, total=4) for n in range(5)))
        return self.everyone(self.wording.capture_end.format(model=model), after=12)

    def serving(self) -> Journal:
        text = "max_total_num_tokens=123456, chunked_prefill_size=8192, context_len=32768"
        for rank in self.ranks if self.wording.settled_on_all else self.ranks[:1]:
            self.say(text, rank)
        return (
            self.say("INFO:     Started server process [4242]", after=1)
            .say("INFO:     Waiting for application startup.")
            .say("INFO:     Application startup complete.")
        )

    def listening(self) -> Journal:
        return self.say("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)")

    def warmed(self) -> Journal:
        return self.say('INFO:     127.0.0.1:5555 - "GET /model_info HTTP/1.1" 200 OK', after=1).say(
            'INFO:     127.0.0.1:5556 - "POST /generate HTTP/1.1" 200 OK', after=8
        )

    def ready(self) -> Journal:
        return self.say("The server is fired up and ready to roll!")

    # ---- whole ways ---------------------------------------------------------------------------------------

    def with_target(self) -> Journal:
        target = "target " if self.wording.pools_last else ""
        return self.loading().bars().loaded().pooled().capturing(target).captured(target)

    def with_draft(self) -> Journal:
        """Target and draft model in the order of the version."""
        if self.wording.pools_last:
            self.loading().bars().loaded().loading().bars(1).loaded().pooled().pooled()
            return self.capturing("target ").captured("target ").capturing("draft ").captured("draft ")
        self.with_target().everyone("Init torch distributed begin.")
        if self.wording.dist_end is not None:
            self.everyone(self.wording.dist_end)
        return self.loading().bars(1).loaded().pooled().capturing("draft ").captured("draft ")

    def healthy(self, *, draft: bool = False) -> Journal:
        self.launched().connected()
        return (self.with_draft() if draft else self.with_target()).serving().listening().warmed().ready()

    # ---- failures -----------------------------------------------------------------------------------------

    def scheduler_exception(self, rank: str, *exceptions: str) -> Journal:
        """A traceback per exception, each raised while handling the one before."""
        self.say("Scheduler hit an exception: Traceback (most recent call last):", rank, after=1)
        for number, exception in enumerate(exceptions):
            if number:
                self.bare("", "During handling of the above exception, another exception occurred:", "")
                self.bare("Traceback (most recent call last):")
            self.bare('  File "/opt/engine/scheduler.py", line 10, in run', "    worker.load()", exception)
        return self.bare("")

    def sigquit(self) -> Journal:
        return self.say("Received sigquit from a child process. It usually means the child failed.")

    # ---- the bytes ----------------------------------------------------------------------------------------

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def data(self) -> bytes:
        return self.text().encode()


def journal(version: str = "0.5.8", ranks: tuple[str, ...] = tp(8), **sizes: int | str) -> Journal:
    """A log of that version with those rank tags; `sizes` go into the launch arguments."""
    told = {"tp_size": len(ranks), "pp_size": 1, "dp_size": 1, "nnodes": 1, "node_rank": 0, **sizes}
    arguments = ", ".join(f"{name}={value}" for name, value in told.items())
    return Journal(WORDINGS[version], ranks, f"model_path='/models/kimi', {arguments}")
