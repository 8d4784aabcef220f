"""The settings of nemo-gym with a stand-in model, and what is asked of it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from fleet.programs import Gym

SINGLE_TOOL_CALL = "resources_servers/example_single_tool_call/configs/example_single_tool_call"
EXAMPLES = "resources_servers/example_single_tool_call/data/example.jsonl"


def model_server(url: str, kind: str = "openai_model", **settings: Any) -> dict[str, Any]:
    """The settings of a model server in front of the stand-in."""
    upstream = {"openai_base_url": url, "openai_api_key": "none", "openai_model": "stand-in"}
    return {"responses_api_models": {kind: {"entrypoint": "app.py", **upstream, **settings}}}


def policy(url: str, **settings: Any) -> dict[str, Any]:
    """The settings of a fleet whose agents ask `policy_model`."""
    names = {"policy_base_url": url, "policy_api_key": "none", "policy_model_name": "stand-in"}
    return {**names, "policy_model": model_server(url, **settings)}


def rollouts(gym: Gym, agent: str, number: int, *more: str, name: str = "rollouts") -> Path:
    """Run `number` rollouts at once; return the file of those that succeeded."""
    output = gym.folder / f"{name}.jsonl"
    arguments = ["--agent", agent, "--input", EXAMPLES, "--output", str(output), "--limit", str(number)]
    gym.run("eval", "run", "--no-serve", *arguments, "--concurrency", str(number), *more)
    return output


def posted(port: int, path: str, body: dict[str, Any]) -> socket.socket:
    """Send a request to a server of a fleet; return the connection, on which the answer will come."""
    content = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode() + content)
    return connection


def answer(connection: socket.socket) -> str:
    """Wait for the answer and return it, with its head."""
    with connection, connection.makefile("rb") as stream:
        return stream.read().decode()
