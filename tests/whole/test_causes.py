"""Failures whose cause stands elsewhere than in the engine's last lines, told in the right words."""

from __future__ import annotations

from tests.support.practice import Practice, practise


async def failure(practice: Practice) -> str:
    """The verdict's reply to a restart that fails."""
    root = await practice.begin()
    assert (await practice.verdict()).verdict == "failed"
    return (await practice.reply(root, "failed")).plain


async def test_the_kernels_hand_is_named_with_its_line() -> None:
    async with practise("kernel-oom", speed=60) as practice:
        told = await failure(practice)
        assert "ran out of memory (RAM)" in told
        assert "sglang::schedul" in told
        assert "Out of memory: Killed process" in told
        assert "TP4" in told
        assert "weights" in told
        [tail] = [file for file in practice.slack.files.values() if file.name.endswith(".log")]
        assert b"killed by the OOM killer" in tail.content


async def test_another_units_process_that_the_kernel_killed_is_no_cause() -> None:
    async with practise("oom-in-weights", speed=60) as practice:
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        process = practice.workspace.host.unit.process
        assert process is not None
        process.kernel(
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,"
            "task_memcg=/system.slice/other.service,task=sglang::schedul,pid=999,uid=0"
        )
        process.kernel("Memory cgroup out of memory: Killed process 999 (sglang::schedul) total-vm:1kB")
        assert (await practice.verdict()).verdict == "failed"
        told = (await practice.reply(root, "failed")).plain
        assert "GPU memory" in told
        assert "Killed process" not in told
        assert "RAM" not in told


async def test_a_collective_that_hangs_is_told_as_stalled_and_then_named() -> None:
    async with practise("nccl-timeout", speed=120) as practice:
        root = await practice.begin()
        stalled = await practice.reply(root, "stalled")
        assert "graph" in stalled.plain
        assert (await practice.verdict()).verdict == "failed"
        told = (await practice.reply(root, "failed")).plain
        assert "NCCL" in told
        assert "Watchdog caught collective operation timeout" in told
        assert "TP5 reported no time-out: it is the one to look at" in told
        assert "graph" in told


async def test_of_two_failures_the_earlier_is_named_and_the_other_mentioned() -> None:
    async with practise("two-causes", speed=60) as practice:
        told = await failure(practice)
        assert "TP2" in told
        assert "torch.OutOfMemoryError" in told
        damaged = "A weight file is damaged or incomplete: safetensors_rust.SafetensorError"
        assert f"Another failure, apart from it: TP6: {damaged}" in told
        assert "Connection closed by peer" not in told


async def test_a_unit_of_the_users_own_is_followed_like_any_other() -> None:
    async with practise("healthy", speed=100, service={"scope": "user"}, host={"sudo": False}) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert any(line.startswith("Weights loaded") for line in practice.replies(root))
        assert practice.orders() == ["restart"]


async def test_a_users_unit_that_dies_is_explained_too() -> None:
    async with practise("oom-in-weights", speed=60, service={"scope": "user"}) as practice:
        told = await failure(practice)
        assert "TP3" in told
        assert "torch.OutOfMemoryError" in told


async def test_a_unit_that_writes_to_a_file_is_followed_there_through_rotation() -> None:
    async with practise("healthy", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        root = await practice.begin()
        log = practice.workspace.host.log
        assert log is not None
        await practice.until(lambda _: "Load weight begin" in log.text)
        log.rotate()
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert sum(line.startswith("Weights loaded") for line in replies) == 1
        assert sum(line.startswith("CUDA graphs captured") for line in replies) == 1


async def test_a_failure_in_a_log_file_comes_with_its_cause_and_its_whole_log() -> None:
    async with practise("oom-in-weights", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        told = await failure(practice)
        assert "torch.OutOfMemoryError" in told
        assert "TP3" in told
        [tail] = [file for file in practice.slack.files.values() if file.name.endswith(".log")]
        assert b"Loading safetensors checkpoint shards" in tail.content
        assert b"Failed with result 'signal'" in tail.content
        assert b"Draining requests" not in tail.content  # that was the run before


async def test_a_log_file_that_may_not_be_read_is_told_at_once() -> None:
    async with practise("healthy", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        log = practice.workspace.host.log
        assert log is not None
        log.unreadable = True
        answer = await practice.ask("restart")
        assert "/var/log/kimi.log" in answer
        assert "setfacl" in answer
        assert practice.orders() == []


async def test_a_log_file_is_taken_up_where_it_stood_after_a_crash() -> None:
    async with practise("healthy", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        root = await practice.begin()
        log = practice.workspace.host.log
        assert log is not None
        await practice.until(lambda _: "Load weight begin" in log.text)
        await practice.app.close()
        log.rotate()
        practice.app = await practice.workspace.start_app()
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert sum(line.startswith("Weights loaded") for line in replies) == 1
        assert practice.orders() == ["restart"]


async def test_a_start_begun_outside_chat_is_watched_in_its_log_file() -> None:
    async with practise("healthy", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        unit, log = practice.workspace.host.unit, practice.workspace.host.log
        assert log is not None
        unit.submit("restart")
        await practice.until(lambda _: "Load weight begin" in log.text)
        root = await practice.begin("watch kimi-k2.5")
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert any(line.startswith("Ranks connected") for line in replies)
        assert sum(line.startswith("Weights loaded") for line in replies) == 1


async def test_the_verb_logs_reads_the_file() -> None:
    async with practise("healthy", speed=60, service={"log_file": "/var/log/kimi.log"}) as practice:
        await practice.type("logs kimi-k2.5 20")
        files = await practice.until(lambda slack: slack.files)
        [tail] = files.values()
        assert b"Decode batch" in tail.content
