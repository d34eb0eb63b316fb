# The bot alone, without the practice workspace's Redis: production has its own.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md ./
RUN python -m venv /opt/kimi \
    && /opt/kimi/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock \
    && /opt/kimi/bin/pip install --no-cache-dir --disable-pip-version-check hatchling
COPY bot ./bot
COPY handlers ./handlers
COPY config ./config
RUN /opt/kimi/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && /opt/kimi/bin/pip uninstall --yes hatchling

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin kimi
COPY --from=build /opt/kimi /opt/kimi
ENV PATH=/opt/kimi/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 KIMI_CONFIG=/etc/kimi/kimi.toml \
    MPLCONFIGDIR=/tmp/matplotlib
USER kimi
# SIGTERM: startups go on from Redis in the next process.
STOPSIGNAL SIGTERM
# Whether a new process would do better, asked past the proxy that Slack may need; with `[health] listen = ""` nobody can tell, and it counts as unhealthy.
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:8970/healthz', timeout=4)"]
ENTRYPOINT ["kimi-bot"]
CMD ["run"]
