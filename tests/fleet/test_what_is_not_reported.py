"""Which of nemo-gym's semaphores can be reached: read in its source, and compared with what the docs say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import psutil

SITE = Path(psutil.__file__).parents[1]
FOLDERS = (
    "benchmarks",
    "environment_servers",
    "nemo_gym",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
)
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concurrency-limit-metrics.md").read_text(encoding="utf-8")
NOT_REPORTED = PAGE.partition("## What is not reported")[2]

DRIVERS = {"nemo_gym/rollout_collection.py", "nemo_gym/rollout_reverification.py"}
"""Reached where they are made."""


def places() -> Iterator[tuple[str, str]]:
    """Each place in nemo-gym that makes a semaphore: its file, and to what it is assigned."""
    for folder in FOLDERS:
        for path in sorted((SITE / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "tests" in path.parts or "Semaphore(" not in text:
                continue
            tree = ast.parse(text)
            parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Semaphore":
                    statement: ast.AST = node
                    while not isinstance(statement, ast.Assign | ast.AnnAssign):
                        statement = parents[statement]
                    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                    yield str(path.relative_to(SITE)), ast.unparse(target)


def test_the_docs_list_each_one_that_is_no_attribute() -> None:
    found = list(places())
    attributes = [place for place in found if place[1].startswith("self.")]
    others = {path for path, target in found if not target.startswith("self.")} - DRIVERS

    assert len(attributes) > 50
    assert others == {word for word in NOT_REPORTED.split("`") if word.endswith(".py")}
