"""What the Linux kernel knows of another process's UDP socket."""

import re
from pathlib import Path


def port(pid: int) -> int:
    """The UDP port that the process is bound to; it has one UDP socket."""
    return int(_row(pid)[1].split(":")[1], 16)


def drops(pid: int) -> int:
    """How many datagrams the kernel dropped because the process's receive buffer was full."""
    return int(_row(pid)[12])


def _row(pid: int) -> list[str]:
    process = Path("/proc", str(pid))
    links = " ".join(str(descriptor.readlink()) for descriptor in (process / "fd").iterdir())
    inodes = re.findall(r"socket:\[(\d+)\]", links)
    rows = (row.split() for row in (process / "net" / "udp").read_text(encoding="ascii").splitlines()[1:])
    return next(row for row in rows if row[9] in inodes)
