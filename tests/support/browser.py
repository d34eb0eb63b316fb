"""A headless Chromium, driven over its DevTools WebSocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--hide-scrollbars", "--lang=en-GB"),
)


class Tab:
    """One page; `evaluate` runs an expression in it."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []  # what the page threw or the console reported as an error

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._connection.send_json({"id": number, "method": method, "params": params})
        while True:
            heard = await self._connection.receive_json(timeout=30)
            if heard.get("id") == number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']}")
                result: dict[str, Any] = heard["result"]
                return result
            self._note(heard)

    def _note(self, heard: dict[str, Any]) -> None:
        params = heard.get("params", {})
        match heard.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(str(params["entry"]))

    async def open(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        await self.send("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        answer = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def wait_for(self, expression: str, *, seconds: float = 20) -> None:
        """Until the expression is true in the page; an expression that throws is not true yet."""
        async with asyncio.timeout(seconds):
            while True:
                with suppress(RuntimeError):
                    if await self.evaluate(f"!!({expression})"):
                        return
                await asyncio.sleep(0.02)

    async def type_into(self, selector: str, text: str) -> None:
        """Type over what stands there and press Enter."""
        await self.evaluate(f"document.querySelector({selector!r}).focus()")
        await self.evaluate(f"document.querySelector({selector!r}).select()")
        await self.send("Input.insertText", text=text)
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **key)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter")

    async def click(self, selector: str) -> None:
        await self.evaluate(f"document.querySelector({selector!r}).click()")

    async def screenshot(self, path: Path) -> None:
        shot = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(shot["data"]))


@asynccontextmanager
async def browser() -> AsyncIterator[Tab]:
    """A tab of a Chromium of its own, with a profile that is thrown away."""
    if CHROMIUM is None:
        raise RuntimeError("no Chromium on PATH")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            *(CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                address = await _address(session, port)
                async with session.ws_connect(address, max_msg_size=0) as connection:
                    yield Tab(connection)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(60):
        while (port := _read_port(file)) is None:
            if process.returncode is not None:
                raise RuntimeError(f"Chromium ended with {process.returncode}")
            await asyncio.sleep(0.02)
    return port


def _read_port(file: Path) -> int | None:
    """The first line of what Chromium writes once it listens."""
    words = file.read_text().split() if file.exists() else []
    return int(words[0]) if words else None


async def _address(session: aiohttp.ClientSession, port: int) -> str:
    async with asyncio.timeout(30):
        while True:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                for target in await response.json(content_type=None):
                    if target["type"] == "page":
                        return str(target["webSocketDebuggerUrl"])
            await asyncio.sleep(0.02)
