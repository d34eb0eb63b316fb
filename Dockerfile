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
ENV PATH=/opt/kimi/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 KIMI_CONFIG=/etc/kimi/kimi.toml
USER kimi
# SIGTERM: startups go on from Redis in the next process.
STOPSIGNAL SIGTERM
ENTRYPOINT ["kimi-bot"]
CMD ["run"]
