"""The first root error among the many lines that follow it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.diagnosis import Suspects
from bot.core.events import MAIN_RANK, LogLine, PhaseId, Rank, Role
from bot.core.phases import Tracker
from bot.core.suspect import SuspectsState
from config.engine_file import load_engine
from tests.support.journals import BEGAN, journal, tp
from tests.support.suspicion import ENGINE, HERE, OOM, accuse, loading


def test_a_healthy_log_has_no_suspects() -> None:
    suspects = accuse(journal().healthy())
    assert suspects.cause() is None
    assert not suspects.is_proven
    assert not suspects.is_likely


def test_the_earliest_own_failure_is_the_cause() -> None:
    log = loading().scheduler_exception("TP1", "RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:4")
    log.scheduler_exception("TP3", OOM).scheduler_exception("TP5", "RuntimeError: something later").sigquit()
    suspects = accuse(log)
    cause = suspects.cause()
    assert suspects.is_proven
    assert cause is not None
    assert (cause.id, cause.rank) == ("gpu-out-of-memory", "TP3")
    assert cause.evidence[0].startswith("torch.OutOfMemoryError")
    assert cause.evidence[1].startswith("Scheduler hit an exception")
    assert 'File "/opt/engine/scheduler.py"' in cause.evidence[2]
    assert (cause.phase, cause.role) == (PhaseId.WEIGHTS, Role.TARGET)


def test_the_first_of_a_chain_names_the_failure() -> None:
    log = loading().scheduler_exception(
        "TP0",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "Exception: Capture cuda graph failed: x",
    )
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "shape-mismatch"
    assert any("Capture cuda graph failed" in text for text in cause.evidence)


def test_follow_ups_are_better_than_nothing() -> None:
    cause = accuse(loading().sigquit()).cause()
    assert cause is not None
    assert cause.evidence[0].startswith("Received sigquit")


def test_what_was_survived_is_no_cause() -> None:
    log = loading().bare(
        "Traceback (most recent call last):",
        '  File "/opt/plugin.py", line 3, in load',
        "ImportError: no plugin",
    )
    suspects = accuse(log)
    assert suspects.is_likely
    assert not suspects.is_proven
    log.loaded().scheduler_exception("TP3", OOM)
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"
    assert not accuse(loading().bare("ImportError: no plugin").loaded()).is_likely


@pytest.mark.parametrize(
    "outermost",
    [
        '  File "<frozen runpy>", line 198, in _run_module_as_main',
        '  File "<string>", line 1, in spawn_main',
        '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap',
        '  File "/opt/engine/launch_server.py", line 30, in <module>',
        '  File "/opt/venv/bin/sglang", line 8, in <module>',
        '  File "/srv/serve.py", line 8, in <module>',
    ],
)
def test_an_exception_that_leaves_its_process_is_fatal(outermost: str) -> None:
    log = journal().healthy().bare("Traceback (most recent call last):", outermost, "ValueError: no")
    assert accuse(log).is_proven


def test_an_exception_that_a_package_printed_while_it_was_imported_is_not() -> None:
    log = journal().launched().bare("Traceback (most recent call last):")
    log.bare('  File "/usr/lib/python3/dist-packages/torch/x.py", line 10, in <module>', "ValueError: no")
    assert not accuse(log).is_proven


def test_an_exception_in_a_thread_is_not() -> None:
    log = journal().healthy().bare("Exception in thread Thread-7:", "Traceback (most recent call last):")
    log.bare('  File "/usr/lib/threading.py", line 1016, in _bootstrap_inner', "ValueError: no")
    assert not accuse(log).is_proven


def test_a_long_message_is_quoted_with_its_next_lines() -> None:
    log = loading().scheduler_exception("TP0", "Exception: Capture cuda graph failed: no")
    log.lines.pop()
    cause = accuse(log.bare("Possible solutions:", "1. use less").say("unrelated")).cause()
    assert cause is not None
    assert cause.evidence[-2:] == ("Possible solutions:", "1. use less")


def test_processes_are_kept_apart() -> None:
    suspects = Suspects(engine=ENGINE)
    tracker = Tracker(ENGINE)
    texts = {
        1: ["Traceback (most recent call last):", '  File "a.py", line 1, in a', "KeyError: 'one'"],
        2: ["Traceback (most recent call last):", '  File "b.py", line 2, in b', "ValueError: two"],
    }
    for number in range(3):
        for pid, lines in texts.items():
            line = LogLine(text=lines[number], reading=lines[number], pid=pid)
            found = tracker.read(line, member=HERE, at=BEGAN)
            suspects.note(line, found, phase=PhaseId.WEIGHTS, role=Role.TARGET, rank=MAIN_RANK)
    assert [suspect.lines for suspect in suspects.state.suspects] == [
        ["KeyError: 'one'", 'File "a.py", line 1, in a'],
        ["ValueError: two", 'File "b.py", line 2, in b'],
    ]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Fatal Python error: Segmentation fault", "segfault"),
        ("[host-a:345  :0:49] Caught signal 11 (Segmentation fault: address not mapped", "segfault"),
        ("Killed", "killed"),
        ("/start.sh: line 4:  4242 Killed                  python3 -m sglang.launch_server", "killed"),
        ("kernel: Out of memory: Killed process 77 (sglang::schedul) total-vm:1kB", "host-out-of-memory"),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address: address already in use",
            "port-in-use",
        ),
        ("launch_server.py: error: unrecognized arguments: --tpp 8", "arguments"),
        ("HW Exception by GPU node-1 (Agent handle: 0x16) reason :GPU Hang", "rocm"),
        (" 33%|####      Memory access fault by GPU node-3 (Agent handle: 0x5a) on address 0x70", "rocm"),
        (
            "[rank8]: Terminating the process after attempting to dump debug info, due to watchdog hang",
            "nccl-timeout",
        ),
        ("malloc_consolidate(): unaligned fastbin chunk detected", "abort"),
        ("slurmstepd: error: *** STEP 7.0 ON gpu-2 CANCELLED AT 2026-05-29T23:50:01 ***", "job-cancelled"),
        ("srun: error: gpu-2: task 0: Exited with exit code 137", "child-killed"),
        ("[2026-05-29 23:49:47] Child process unexpectedly failed with an exit code 11. pid=7", "segfault"),
        ("段错误 (核心已转储)", "segfault"),
        ("已杀死", "killed"),
        ("[2026-05-29 23:49:47 TP1] Watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
        (
            "[2026-05-29 23:49:47] X watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "watchdog",
        ),
        (
            "[rank3]:[E529 1:2:3 x.cpp:1] Watchdog caught collective operation timeout: WorkNCCL(",
            "nccl-timeout",
        ),
    ],
)
def test_fatal_lines_speak_for_themselves(text: str, known: str) -> None:
    suspects = accuse(journal("0.5.8", tp(1)).bare(text))
    assert suspects.is_proven
    cause = suspects.cause()
    assert cause is not None
    assert cause.id == known


@pytest.mark.parametrize(
    "text",
    [
        "[2026-05-29 23:49:47] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
        "[2026-05-29 23:49:47] Health check failed. Server couldn't get a response from detokenizer for last",
        "RuntimeError: one request failed",
        "sh: 1: py-spy: not found",
        "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",
        "[2026-05-29 23:49:47] KV cache pool is full. Retract requests. #retracted_reqs: 1",
    ],
)
def test_what_a_server_survives_proves_nothing(text: str) -> None:
    assert not accuse(journal().healthy().bare(text)).is_proven


def test_saved_and_restored_it_names_the_same_cause() -> None:
    log = loading().scheduler_exception("TP3", "KeyError: 'x'", OOM).sigquit()
    expected = accuse(log).cause()
    adapter = TypeAdapter(SuspectsState)
    for cut in range(len(log.lines)):
        tracker, suspects = Tracker(ENGINE), Suspects(engine=ENGINE)
        for number, text in enumerate(log.lines):
            if number == cut:
                kept = adapter.validate_json(adapter.dump_json(suspects.state))
                suspects = Suspects(kept, engine=ENGINE)
            line = LogLine(text=text, reading=text)
            findings = tracker.read(line, member=HERE, at=BEGAN)
            phase, role = tracker.current()
            suspects.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
        assert suspects.cause() == expected


@pytest.mark.parametrize(
    ("functions", "phase"),
    [
        (("run_scheduler_process", "init_torch_distributed"), PhaseId.DISTRIBUTED),
        (("run_scheduler_process", "load_model", "forward"), PhaseId.WEIGHTS),
        (("run_scheduler_process", "init_memory_pool"), PhaseId.MEMORY),
        (("run_scheduler_process", "init_device_graphs", "capture", "forward"), PhaseId.GRAPHS),
        (("run_scheduler_process", "event_loop_overlap", "process_batch_result"), PhaseId.READY),
        (("nothing_known",), PhaseId.PROCESS),
    ],
)
def test_a_bare_traceback_tells_its_phase_by_its_functions(
    functions: tuple[str, ...], phase: PhaseId
) -> None:
    log = journal("0.5.8").say("Scheduler hit an exception: Traceback (most recent call last):", "TP0")
    for name in functions:
        log.bare(f'  File "/opt/engine/file.py", line 7, in {name}', "    call()")
    root = accuse(log.bare("ValueError: no")).root()
    assert root is not None
    assert root.phase is phase


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", PhaseId.MEMORY),
        ("ValueError: TP rank 1 could finish the model loading, but there are other ranks", PhaseId.WEIGHTS),
        ("Exception: Capture cuda graph failed: no", PhaseId.GRAPHS),
        ("ValueError: The memory capacity is unbalanced. Some GPUs may be occupied", PhaseId.DISTRIBUTED),
    ],
)
def test_some_failures_tell_their_phase_themselves(text: str, phase: PhaseId) -> None:
    root = accuse(journal("0.5.8").scheduler_exception("TP0", text)).root()
    assert root is not None
    assert root.phase is phase


def test_a_warning_by_itself_fails_no_start() -> None:
    log = loading().say("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)", "TP0")
    suspects = accuse(log.bare("host-a:1:2 [0] misc/socket.cc:1 NCCL WARN connect refused"))
    assert not suspects.is_likely
    assert suspects.cause() is not None


def test_a_log_may_begin_within_a_traceback() -> None:
    log = journal()
    log.bare('  File "/opt/engine/runner.py", line 3, in load_model', "    get()", "KeyError: 'layers.1'")
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.phase is PhaseId.WEIGHTS
    assert cause.evidence[:2] == ("KeyError: 'layers.1'", log.lines[0].strip())


def test_a_later_exception_of_a_chain_may_tell_the_phase() -> None:
    log = journal().bare('  File "/opt/engine/x.py", line 3, in forward', "RuntimeError: shapes differ", "")
    log.bare("During handling of the above exception, another exception occurred:", "")
    log.bare("Traceback (most recent call last):", '  File "/opt/engine/x.py", line 9, in run')
    cause = accuse(log.bare("Exception: Capture cuda graph failed: shapes differ")).cause()
    assert cause is not None
    assert cause.phase is PhaseId.GRAPHS
    assert cause.evidence[0] == "RuntimeError: shapes differ"


def test_a_traceback_may_have_lost_its_indentation() -> None:
    log = loading().say("Scheduler hit an exception: Traceback (most recent call last):", "TP1")
    log.bare(
        'File "/opt/engine/runner.py", line 3, in load_model', "self.loader: Loader = get_loader(", "else:"
    )
    log.bare("raise RuntimeError(f'no: {x}')", "RuntimeError: no: 7")
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.evidence[0] == "RuntimeError: no: 7"
    assert 'File "/opt/engine/runner.py", line 3, in load_model' in cause.evidence


@pytest.mark.parametrize(
    "text",
    [
        "socket.gaierror: [Errno -2] Name or service not known",
        "zmq.error.Again",
        "struct.error: x",
        "Empty",
        "nixl._bindings.nixlBackendError: X",
    ],
)
def test_not_every_exception_is_called_error(text: str) -> None:
    log = loading().bare("Traceback (most recent call last):", '  File "x.py", line 1, in f', text)
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.evidence[0] == text


def test_the_functions_tell_the_phase_of_a_rank_that_kept_silent() -> None:
    log = journal("0.5.8", tp(2)).launched()
    log.say("Init torch distributed begin.", "TP0").say("Load weight begin. avail mem=9.00 GB", "TP0")
    log.say("Scheduler hit an exception: Traceback (most recent call last):", "TP1")
    log.bare('  File "/opt/engine/runner.py", line 3, in load_model', "KeyError: 'layers.1'")
    cause = accuse(log).cause()
    assert cause is not None
    assert (cause.rank, cause.phase) == ("TP1", PhaseId.WEIGHTS)


def test_two_failures_apart_the_first_wins_and_the_second_is_told() -> None:
    log = loading().scheduler_exception("TP3", OOM)
    cause = accuse(log.scheduler_exception("TP5", "OSError: [Errno 5] Input/output error: 'x.bin'")).cause()
    assert cause is not None
    assert (cause.id, cause.rank) == ("gpu-out-of-memory", "TP3")
    what = "A file could not be read: input/output error or a stale mount"
    assert cause.also == f"TP5: {what}: OSError: [Errno 5] Input/output error: 'x.bin'"
    assert "Another failure" in cause.counsel


@pytest.mark.parametrize(
    "follow_up",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 5 has no more",
        "RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:4",
        "RuntimeError: NCCL error: remote process exited or there was a network error",
        "RuntimeError: something nobody knows",
        f"RuntimeError: worker said {OOM.partition(': ')[2]}",
    ],
)
def test_what_follows_from_the_first_is_no_second(follow_up: str) -> None:
    cause = accuse(loading().scheduler_exception("TP3", OOM).scheduler_exception("TP5", follow_up)).cause()
    assert cause is not None
    assert cause.also is None


def report(rank: int) -> str:
    return f"[rank{rank}]:[E529 1:2:3 x.cpp:1] [Rank {rank}] Watchdog caught collective operation timeout: W("


def test_the_one_rank_that_reports_no_timeout_is_to_blame_for_it() -> None:
    suspects = accuse(loading().bare(*(report(rank) for rank in range(8) if rank != 5)))
    cause = suspects.cause(ranks=[Rank(name) for name in tp(8)])
    assert cause is not None
    assert (cause.id, cause.rank, cause.speaker) == ("nccl-timeout", "TP5", "TP0")
    assert "TP5 reported no time-out" in cause.title


def test_who_reported_is_known_of_more_than_are_kept_as_suspects() -> None:
    lines = [report(rank) for rank in range(128) if rank != 77]
    names = tp(128)
    suspects = accuse(journal("0.5.8", names).launched().connected().loading().bare(*lines))
    cause = suspects.cause(ranks=[Rank(name) for name in names])
    assert cause is not None
    assert cause.rank == "TP77"


def test_an_abort_of_cplusplus_is_told_by_its_reason() -> None:
    log = loading().bare("terminate called after throwing an instance of 'c10::DistBackendError'")
    cause = accuse(log.bare("  what():  [Rank 3] NCCL error: unhandled cuda error, version 2.27")).cause()
    assert cause is not None
    assert cause.id == "nccl"
    assert cause.evidence[0].startswith("what():")
    lonely = accuse(loading().bare("  what():  nothing was thrown"))
    assert lonely.cause() is None


def test_the_kernels_kill_is_the_root_of_what_the_parent_says() -> None:
    log = loading().say("Rank 3 scheduler is dead. Please check if there are relevant logs.")
    log.say("Exit code: -9").bare("kernel: Out of memory: Killed process 77 (sglang::schedul) total-vm:1kB")
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "host-out-of-memory"
    assert "sglang::schedul" in cause.title


@pytest.mark.parametrize(
    ("code", "known", "told"),
    [
        (-9, "host-out-of-memory", "OOM"),
        (-7, "bus-error", "SIGBUS"),
        (-11, "segfault", "SIGSEGV"),
        (-6, "abort", "SIGABRT"),
        (135, "bus-error", "SIGBUS"),
        (137, "child-killed", "137 (SIGKILL)"),
        (139, "segfault", "SIGSEGV"),
        (256, "child-died", "exit status 1"),
    ],
)
def test_an_exit_code_tells_how_a_rank_ended(code: int, known: str, told: str) -> None:
    log = loading().say("Rank 3 scheduler is dead. Please check if there are relevant logs.")
    cause = accuse(log.say(f"Exit code: {code}")).cause()
    assert cause is not None
    assert cause.id == known
    assert told in cause.title


def test_a_gpu_that_is_gone_is_the_root_of_what_follows() -> None:
    log = loading().bare("kernel: NVRM: Xid (PCI:0000:4e:00): 79, pid=7, GPU has fallen off the bus.")
    cause = accuse(log.scheduler_exception("TP3", "RuntimeError: CUDA error: unknown error")).cause()
    assert cause is not None
    assert cause.id == "gpu-lost"


def test_a_warning_does_not_stand_before_a_failure() -> None:
    log = loading().say("Health check failed. Server couldn't get a response").scheduler_exception("TP3", OOM)
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"


TOLD = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "/opt/engine/scheduler.py", line 7, in run',
        "ValueError: too long",
        "terminate called after throwing an instance of 'c10::Error'",
        "  what():  CUDA error: an illegal memory access",
        "The above exception was the direct cause of the following exception:",
        "[2026-05-29 23:49:47 TP1] Load weight begin.",
        "[2026-05-29 23:49:47 TP1] Decode batch, #running-req: 1",
        "plain",
        "",
    ]
)


class CarefulSuspects(Suspects):
    """Looks at every line."""

    def _tells(self, reading: str) -> bool:
        del reading
        return True


@given(st.lists(st.tuples(TOLD, st.sampled_from([None, 1, 2]), st.booleans()), max_size=30))
def test_a_line_that_cannot_matter_is_not_looked_at(said: list[tuple[str, int | None, bool]]) -> None:
    tracker, quick, careful = Tracker(ENGINE), Suspects(engine=ENGINE), CarefulSuspects(engine=ENGINE)
    for text, pid, partial in said:
        line = LogLine(text, text, pid=pid, partial=partial)
        findings = tracker.read(line, member=HERE, at=BEGAN)
        phase, role = tracker.current()
        quick.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
        careful.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
    assert quick.state == careful.state


GATE = '  File "/opt/engine/loader.py", line 3, in load_model'


@pytest.mark.parametrize(
    "header",
    ["Exception ignored in: <function Socket.__del__ at 0x7f>", "--- Logging error ---"],
)
def test_what_python_passes_over_is_no_failure(header: str) -> None:
    log = loading().bare(
        header, "Traceback (most recent call last):", GATE, "ValueError: I/O operation on closed"
    )
    assert accuse(log).root() is None
    log.scheduler_exception("TP1", OOM)
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"


def test_what_is_said_beside_what_python_passes_over_counts() -> None:
    header = "Exception ignored in: <function Socket.__del__ at 0x7f>"
    passed = loading().bare(header, "Traceback (most recent call last):", GATE).sigquit()
    cause = accuse(passed).cause()
    assert cause is not None
    assert cause.evidence[0].startswith("Received sigquit")
    log = loading().bare(header, "Traceback (most recent call last):", GATE)
    cause = accuse(log.bare("Traceback (most recent call last):", GATE, OOM)).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"


def test_who_serves_did_not_end_with_the_exception_that_it_printed() -> None:
    log = journal().launched().bare("Traceback (most recent call last):")
    log.bare('  File "/opt/engine/layers.py", line 10, in <module>', "ImportError: no deep_gemm")
    assert accuse(log).is_proven
    suspects = accuse(log.connected().with_target().serving().listening().warmed().ready())
    assert not suspects.is_proven
    assert not suspects.is_likely
    assert accuse(log.bare("Fatal Python error: Aborted")).is_proven


def test_who_is_phases_further_on_did_not_end_with_it_either() -> None:
    log = journal().launched().bare("Traceback (most recent call last):")
    log.bare('  File "/opt/engine/layers.py", line 10, in <module>', "ImportError: no deep_gemm")
    assert accuse(log.connected()).is_proven  # the other ranks may get that far before they are ended
    suspects = accuse(log.loading())
    assert not suspects.is_proven
    assert not suspects.is_likely
    assert accuse(log.scheduler_exception("TP3", OOM)).is_proven


def test_a_bar_before_a_traceback_does_not_hide_whose_it_is() -> None:
    stamp = "(Worker_TP1 pid=7) ERROR 05-29 23:49:47 [worker.py:12] "
    lines = [
        f" 5%|4   | 1/20 [00:01<00:19, 1.0it/s]{stamp}Traceback (most recent call last):",
        f'{stamp}  File "/opt/vllm/worker.py", line 3, in load_model',
        f"{stamp}RuntimeError: the tables do not fit",
    ]
    suspects = Suspects(engine=load_engine("vllm"))
    for text in lines:
        suspects.note(LogLine(text, text), (), phase=PhaseId.WEIGHTS, role=Role.TARGET, rank=MAIN_RANK)
    root = suspects.root()
    assert root is not None
    assert root.lines[0] == "RuntimeError: the tables do not fit"


def test_an_exception_without_a_message_is_told_by_its_line_of_code() -> None:
    log = loading().say("Scheduler hit an exception: Traceback (most recent call last):", "TP1")
    log.bare(GATE, "    assert self.heads % tp_size == 0", "           ^^^^^", "AssertionError")
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "tp-indivisible"
    assert "assert self.heads % tp_size == 0" in cause.evidence


def test_a_request_that_failed_is_not_why_the_server_ended_later() -> None:
    log = journal().healthy().say("ERROR:    Exception in ASGI application")
    log.bare("Traceback (most recent call last):", GATE, "ValueError: the input is too long")
    served = log.say("Decode batch. #running-req: 3, #token: 4567, token usage: 0.01")
    assert not accuse(served).is_likely
    suspects = accuse(served.bare("Killed"))
    cause = suspects.cause()
    assert cause is not None
    assert (cause.id, cause.evidence) == ("killed", ("Killed",))


def test_tracebacks_of_two_ranks_may_stand_within_each_other() -> None:
    log = loading().say("Scheduler hit an exception: Traceback (most recent call last):", "TP0")
    log.say("Scheduler hit an exception: Traceback (most recent call last):", "TP1").bare(GATE, GATE)
    cause = accuse(
        log.bare("RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:4", OOM).sigquit()
    ).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"


def test_an_exception_may_be_announced_on_a_line_of_its_own() -> None:
    log = (
        loading()
        .say("Exception in run_tp_server:", "TP1")
        .bare("Traceback (most recent call last):", GATE, OOM)
    )
    cause = accuse(log).cause()
    assert cause is not None
    assert cause.id == "gpu-out-of-memory"


@pytest.mark.parametrize(
    "text", ["sh: 1: py-spy: not found", "AttributeError: 'MessageFactory' object has no x"]
)
def test_what_hinders_nothing_makes_no_failure_likely(text: str) -> None:
    assert not accuse(loading().bare(text)).is_likely


@pytest.mark.parametrize(
    ("warning", "known"),
    [
        (
            "h:7:9 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate",
            "locked-memory",
        ),
        (
            "h:7:9 [0] include/shm.h:48 NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9 bytes",
            "shared-memory",
        ),
        ("h:7:9 [0] init.cc:9 NCCL WARN something new", "nccl"),
    ],
)
def test_nccls_own_warning_tells_why_a_call_of_it_failed(warning: str, known: str) -> None:
    error = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    cause = accuse(loading().bare(warning).scheduler_exception("TP1", error)).cause()
    assert cause is not None
    assert (cause.id, cause.rank) == (known, "TP1")
    assert error in cause.evidence


SPECULATIVE = '  File "/opt/sglang/srt/speculative/{file}.py", line 3, in {function}'


@pytest.mark.parametrize(
    ("frames", "phase", "role"),
    [
        ((("eagle_worker", "__init__"),), PhaseId.WEIGHTS, Role.DRAFT),
        ((("eagle_worker", "__init__"), ("eagle_worker", "init_cuda_graphs")), PhaseId.GRAPHS, Role.DRAFT),
        ((("eagle_worker", "forward_batch_generation"),), PhaseId.GRAPHS, Role.TARGET),
    ],
)
def test_the_functions_tell_whose_model_failed(
    frames: tuple[tuple[str, str], ...], phase: PhaseId, role: Role
) -> None:
    log = journal().launched().connected().with_target()
    log.say("Scheduler hit an exception: Traceback (most recent call last):", "TP1")
    log.bare(
        *[SPECULATIVE.format(file=file, function=function) for file, function in frames], "KeyError: 'x'"
    )
    cause = accuse(log).cause()
    assert cause is not None
    assert (cause.phase, cause.role) == (phase, role)


def test_a_request_that_quotes_a_traceback_opens_none() -> None:
    log = (
        journal()
        .healthy()
        .say("Receive: obj=GenerateReqInput(text='Traceback (most recent call last): ...')")
    )
    suspects = accuse(log)
    assert not suspects.state.traces


def test_what_only_follows_names_no_chain_of_exceptions() -> None:
    log = loading().scheduler_exception(
        "TP1",
        "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 9ms for recv operation",
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks"
        " that didn't finish loading.",
    )
    cause = accuse(log.sigquit()).cause()
    assert cause is not None
    assert (cause.id, cause.phase) == ("ranks-apart", PhaseId.WEIGHTS)


def test_a_capture_that_lost_its_peer_follows_from_what_befell_the_peer() -> None:
    gone = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4"
    log = loading().scheduler_exception(
        "TP1", f"RuntimeError: {gone}", f"Exception: Capture cuda graph failed: {gone}"
    )
    alone = accuse(log).cause()
    assert alone is not None
    assert alone.id == "peer-lost"
    cause = accuse(log.scheduler_exception("TP0", OOM)).cause()
    assert cause is not None
    assert (cause.id, cause.rank) == ("gpu-out-of-memory", "TP0")


@pytest.mark.parametrize(
    ("other", "said", "rank"),
    [
        ("EngineCore_DP0 pid=1", "EngineCore_DP1 pid=2", "DP1"),
        ("EngineCore_0 pid=1", "EngineCore_1 pid=2", "DP1"),
        ("EngineCore_DP0 pid=1", "EngineCore_DP1 pid=2) (Worker_TP1 pid=3", "DP1 TP1"),
        ("EngineCore_DP0 pid=1", "Worker_DP1_TP1 pid=3", "DP1 TP1"),
        ("EngineCore_DP0 pid=1", "EngineCore_DP0 pid=1", "main"),
    ],
)
def test_an_exception_is_its_cores(other: str, said: str, rank: str) -> None:
    vllm = load_engine("vllm")
    tracker, suspects = Tracker(vllm), Suspects(engine=vllm)
    for text in (
        f"({other}) INFO 05-29 23:49:05 [core.py:58] Initializing a V1 LLM engine (v0.19.1) with x",
        f"({said}) Traceback (most recent call last):",
        f'({said})   File "/opt/plugin.py", line 3, in load',
        f"({said}) FileNotFoundError: [Errno 2] No such file or directory: '/models/m/config.json'",
    ):
        line = LogLine(text, text)
        findings = tracker.read(line, member=HERE, at=BEGAN)
        phase, role = tracker.current()
        suspects.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
    cause = suspects.cause()
    assert cause is not None
    assert cause.rank == rank
