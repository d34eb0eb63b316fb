# Everything runs from .venv, which `install` makes from the hashed lock. PYTHON names the interpreter to build it with.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed
COMPILE = $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --generate-hashes --no-header --no-emit-index-url \
    --no-emit-trusted-host --no-emit-find-links

.PHONY: install demo test test-systemd kill-matrix lint format bench lock clean

install: $(STAMP)

$(STAMP): requirements-dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "kimi needs $(PYTHON): install Python 3.11, or name another 3.11+ with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: install
	$(BIN)/kimi-bot demo --say "restart kimi-k2.5 new tool-call parser"

test: install
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder tests/whole tests/bot tests/config tests/handlers tests/support tests/test_*.py

# Boots a Debian with systemd in a container: needs root, Debian packages and a few minutes the first time.
test-systemd: install
	$(BIN)/pytest -m systemd -o "norecursedirs=.*" tests/systemd

# A restart, and an outage, whose bot is killed at every one of its side effects, some 800 and 900; `make test`
# takes a choice of them.
kill-matrix: install
	KIMI_EVERY_POINT=1 $(BIN)/pytest -n 2 -s tests/whole/test_killed_before.py tests/whole/test_killed_after.py tests/whole/test_stopped.py \
		tests/whole/test_outage_killed_before.py tests/whole/test_outage_killed_after.py tests/whole/test_outage_stopped.py

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.twins

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python -m bench.journal
	$(BIN)/python -m bench.pipeline
	$(BIN)/python -m bench.memory_redis
	$(BIN)/python -m bench.fleet

# Pins every dependency with its hashes; no address of any registry is recorded.
lock: install
	$(COMPILE) -o requirements.lock pyproject.toml
	$(COMPILE) --extra dev --all-build-deps -o requirements-dev.lock pyproject.toml

clean:
	rm -rf .venv .kimi .mypy_cache .ruff_cache .pytest_cache .hypothesis
