"""A stand-in for the model behind a model server: it answers every request after a second."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

SECONDS = 1.0

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "model": "stand-in",
    "status": "completed",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "The weather is cold. [[A=B]]", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
_COMPLETION = {
    "id": "chatcmpl_1",
    "object": "chat.completion",
    "created": 0,
    "model": "stand-in",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "The weather is cold. [[A=B]]"},
        }
    ],
}
_ANSWERS = {"/v1/responses": RESPONSE, "/v1/chat/completions": _COMPLETION}
_PROXY = {"litellm_version": "1.83.0"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(_PROXY if self.path == "/health/readiness/details" else {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(SECONDS)
        self._answer(_ANSWERS[self.path])

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass  # A client that has gone away.


class StandIn:
    """The server, in a `with` statement."""

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
