"""One run: what happens to the receivers, and whether every count is accounted for afterwards."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from chaos.program import CONTENDED, NAMESPACE
from chaos.receivers import Receiver, StreamReceiver, UdpReceiver, UnixReceiver

TRANSPORTS = ("udp", "unix", "unixstream")

Key = tuple[str, str]
"""The name of a limit and of one of its counts."""


class Tally:
    """What was read, datagram by datagram."""

    def __init__(self) -> None:
        self.counts: Counter[Key] = Counter()
        self.datagrams = 0

    def add(self, datagrams: list[bytes]) -> None:
        self.datagrams += len(datagrams)
        for datagram in datagrams:
            for line in datagram.decode().split("\n"):
                head, kind, *rest = line.split("|")
                name, _, value = head.partition(":")
                if kind == "c" and name.startswith(f"{NAMESPACE}."):
                    (limit,) = (tag[11:] for tag in rest[0].split(",") if tag.startswith("limit_name:"))
                    self.counts[limit, name.removeprefix(f"{NAMESPACE}.")] += int(value)


class Outcome(NamedTuple):
    """What came out of a run."""

    transport: str
    seed: int
    seconds: float
    acts: Counter[str]
    """What was done to receivers, and how often."""
    events: Counter[Key]
    received: Tally
    left: Tally
    """What was read from the buffers of receivers that were gone, or that nobody read any more."""
    dropped: int
    """Datagrams that the kernel took and dropped, since a stalled UDP receiver's buffer was full."""
    program: dict[str, Any]
    errors: str
    """What the program wrote to its standard error."""

    def faults(self) -> list[str]:
        """What is not as it must be: counted twice, or lost without a trace in a buffer or in the kernel's count."""
        faults = []
        renewed = set(self.program["renewed"])
        accounted = self.received.counts + self.left.counts
        for key in sorted({*self.events, *accounted}):
            events, known = self.events[key], accounted[key]
            at_most = self.dropped > 0 or (key[1] == CONTENDED and key[0] in renewed)
            if known > events or (known < events and not at_most):
                faults.append(f"{key}: {events} events, {self.received.counts[key]} received, {known} accounted for")
        sent, found = self.program["datagrams"], self.received.datagrams + self.left.datagrams + self.dropped
        if sent != found:
            faults.append(f"{sent} datagrams were called delivered, {found} are accounted for")
        if self.program["counts_expired"]:
            faults.append(f"{self.program['counts_expired']} counts expired")
        return faults

    def total(self, counts: Counter[Key]) -> int:
        """The events in `counts`; contended milliseconds are none."""
        return sum(count for (_, name), count in counts.items() if name != CONTENDED)


class _Agents:
    """The receivers at one address, one after the other and at times two at once, and what happens to them."""

    def __init__(self, transport: str, random: Random, folder: Path, *, lossless: bool) -> None:
        self.received = Tally()
        self.left = Tally()
        self.dropped = 0
        self.acts: Counter[str] = Counter()
        self._random = random
        self._lossless = lossless
        self._path = folder / "dsd.socket"
        self._transport = transport
        self._port = 0
        self._current = self._open()
        self._orphans: list[Receiver] = []
        self.address = f"udp://127.0.0.1:{self._port}" if transport == "udp" else f"{transport}://{self._path}"

    def do_something(self) -> None:
        acts: list[Callable[[], None]] = [self._close, self._replace, self._stall]
        if self._transport != "udp":
            acts.append(self._unlink)
        if not self._lossless:
            acts.append(self._kill)
            if self._transport != "udp":
                acts.append(self._orphan)
        act = self._random.choice(acts)
        self.acts[act.__name__.strip("_")] += 1
        act()

    def read_for(self, seconds: float, *receivers: Receiver) -> None:
        """Read as an Agent does, the current receiver and these."""
        end = time.monotonic() + seconds
        reading = [self._current, *receivers]
        while (left := end - time.monotonic()) > 0:
            select.select([sock for receiver in reading for sock in receiver.sockets()], [], [], left)
            for receiver in reading:
                self.received.add(receiver.read())

    def end(self) -> None:
        self._finish(self._current, self.received)
        for orphan in self._orphans:
            self._finish(orphan, self.left)

    def _open(self, path: Path | None = None) -> Receiver:
        if self._transport == "udp":
            receiver = UdpReceiver(self._port, roomy=self._lossless)
            self._port = receiver.port
            return receiver
        return (UnixReceiver if self._transport == "unix" else StreamReceiver)(path or self._path)

    def _finish(self, receiver: Receiver, tally: Tally) -> None:
        receiver.refuse()
        tally.add(receiver.read())
        self.dropped += receiver.dropped()
        receiver.close()

    def _away(self) -> None:
        """Nobody is there for a while; the file of the socket may stay behind, as that of a crashed Agent does."""
        if self._transport != "udp" and self._random.random() < 0.5:
            self._path.unlink(missing_ok=True)
        time.sleep(self._random.random())
        self._path.unlink(missing_ok=True)
        self._current = self._open()

    # What may happen.

    def _close(self) -> None:
        """It reads all that it has taken, goes, and comes back."""
        self._finish(self._current, self.received)
        self._away()

    def _kill(self) -> None:
        """It stalls and dies with a full buffer."""
        time.sleep(self._random.random())
        self._finish(self._current, self.left)
        self._away()

    def _stall(self) -> None:
        """It does not read for a while. More than this over UDP, and its buffer may overflow."""
        time.sleep(self._random.random() * (0.1 if self._lossless and self._transport == "udp" else 1.5))

    def _replace(self) -> None:
        """Another one takes its place at once, under the same name, while it reads what it was sent."""
        if self._transport == "udp":
            self._finish(self._current, self.received)
            self._current = self._open()
            return
        old = self._take_place()
        self.read_for(self._random.random() * 0.5, old)
        self._finish(old, self.received)

    def _unlink(self) -> None:
        """Its file is removed under it, and another one comes later."""
        self._path.unlink()
        self.read_for(self._random.random() * 0.5)
        self._finish(self._current, self.received)
        self._current = self._open()

    def _orphan(self) -> None:
        """Another one takes its place, and its own socket stays open somewhere, though nobody reads it any more."""
        self._orphans.append(self._take_place())

    def _take_place(self) -> Receiver:
        old = self._current
        new = self._path.with_suffix(".new")
        self._current = self._open(new)
        new.replace(self._path)
        return old


def without_reporting(seed: int, seconds: float) -> dict[str, Any]:
    """Return what the same program says at its end when nothing is pushed."""
    with _program("udp://127.0.0.1:9", seed, (), PUSHMETRICS_ENABLED="0") as program:
        time.sleep(seconds)
        output, _ = program.communicate()
    said: dict[str, Any] = json.loads(output)
    return said


def run(transport: str, seed: int, seconds: float, *, lossless: bool, options: Sequence[str] = ()) -> Outcome:
    """Run the program against what happens at random for so many seconds.

    `lossless`: each receiver reads all that it has taken before it goes, so that all must have arrived. `options` are
    the interpreter's.
    """
    random = Random(f"{transport} {seed}")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        agents = _Agents(transport, random, Path(folder), lossless=lossless)
        with _program(agents.address, seed, options) as program:
            while not agents.received.datagrams and program.poll() is None:
                agents.read_for(0.1)
            end = time.monotonic() + seconds
            while time.monotonic() < end and program.poll() is None:
                agents.do_something()
                agents.read_for(random.random())
            assert program.stdin is not None
            program.stdin.close()
            deadline = time.monotonic() + 30
            while program.poll() is None and time.monotonic() < deadline:
                agents.read_for(0.05)
            agents.end()
            program.kill()
            assert program.stdout is not None
            assert program.stderr is not None
            output, errors = program.stdout.read(), program.stderr.read()
    if not output:
        raise AssertionError(f"seed {seed}: the program ended with {program.wait()}: {errors}")
    said = json.loads(output)
    events = Counter(
        {(limit, name): count for limit, counts in said["events"].items() for name, count in counts.items()}
    )
    return Outcome(
        transport,
        seed,
        seconds,
        agents.acts,
        events,
        agents.received,
        agents.left,
        agents.dropped,
        said,
        errors,
    )


@contextmanager
def _program(address: str, seed: int, options: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *options, "-m", "chaos.program", address, str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    ) as program:
        try:
            yield program
        finally:
            program.kill()
