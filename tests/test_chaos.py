"""Whatever happens to a receiver, nothing counts twice, and nothing is lost but what a dead one had in its buffer.

``PUSHMETRICS_TEST_CHAOS_SECONDS=60`` makes the runs long, ``PUSHMETRICS_TEST_CHAOS_SEED`` repeats one that failed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from random import randrange

import pytest

if sys.platform != "linux":
    pytest.skip("what the kernel dropped is asked of Linux", allow_module_level=True)

from chaos.__main__ import HEAD
from chaos.run import TRANSPORTS, run

SECONDS = float(os.environ.get("PUSHMETRICS_TEST_CHAOS_SECONDS", "3"))
SEED = int(os.environ.get("PUSHMETRICS_TEST_CHAOS_SEED") or randrange(10**6))


@pytest.mark.timeout(60 + SECONDS * 2)
@pytest.mark.parametrize("lossless", [True, False], ids=["drained", "killed"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_count_is_accounted_for(transport: str, lossless: bool) -> None:
    print(f"PUSHMETRICS_TEST_CHAOS_SEED={SEED}")  # noqa: T201 - whoever sees it fail wants to repeat it

    outcome = run(transport, SEED, SECONDS, lossless=lossless, options=("-X", "dev", "-W", "error"))

    assert outcome.faults() == []
    assert outcome.errors == ""
    if lossless:
        assert outcome.left.datagrams == 0
    program = outcome.program
    # One line when the receiver goes and one when it is back, at most each 30 s, and one for each new reason.
    assert len(program["log"]) <= 6 + SECONDS / 15, program["log"]
    assert program["memory_growth_kib"] < 64 * 1024


def test_the_table_in_the_docs_is_of_ten_runs_and_adds_up() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "delivery.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.partition(HEAD)[2].splitlines() if line.startswith("|")]

    assert len(rows) == 10 * len(TRANSPORTS)
    for seed, transport, receivers, *numbers in rows:
        events, received, left, dropped = (int(re.findall(r"\d+", cell)[0]) for cell in numbers[:4])
        assert events == received + left + dropped, (seed, transport)
        assert "killed" in receivers or events == received, (seed, transport)
