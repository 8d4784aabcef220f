"""Worker slots: the lock files that tell the processes of a user on this host apart, and their one owner here.

A slot is one byte that is locked. The kernel drops the locks of a process that ends, however it ends, so a slot is
free when nobody alive holds it, and there is nothing to clean up.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from contextlib import suppress
from typing import NamedTuple

FILES = 64
"""Over how many files the groups of a user are spread. To lock a byte, the kernel walks through all locks of the file:
with 10,000 groups in four processes that is one second in 64 files, and two minutes in one."""

SLOTS_IN_GROUP = 1024
"""Bytes of a group, so the most processes that are told apart. Which bytes is decided by a hash: two groups that
share them by chance, one in a million of millions, have higher numbers than they need, and none twice."""


class Slot(NamedTuple):
    """A slot that this process holds."""

    number: int
    """0 for the first process that reports a group, then 1, and so on."""
    file: int
    byte: int


class SlotFiles:
    """The lock files of one process, and its only owner of them.

    Nothing else in the process may open them: closing a descriptor of a file drops all the locks that the process has
    on it, even those that were taken through another descriptor.

    Its methods wait for the file system, so they are called off the loop. They never wait for another process.
    """

    def __init__(self) -> None:
        self.generation = 0
        """Raised when files were found to be gone, and with them the slots that had been taken."""
        self._lock = threading.Lock()
        self._directory = -1
        self._files: dict[int, int] = {}
        # Who holds a byte within this process, for which the locks of the kernel are all one. A holder that is gone
        # without giving its slots back, with its loop perhaps, holds nothing any more.
        self._holders: dict[tuple[int, int], weakref.ref[object]] = {}

    def take(self, group: bytes, holder: object) -> Slot:
        """Take the lowest slot of `group` that neither another process nor another holder in this one has.

        Raises OSError when there is none to be had: no directory that is safe, no file locks, or all slots taken.
        """
        if os.name == "nt":
            raise OSError(errno.ENOSYS, "this platform has no file locks of processes")
        hashed = int.from_bytes(_digest(group), "big")
        file, first = hashed % FILES, (hashed >> 12) * SLOTS_IN_GROUP  # Below 2**63, the end of any file.
        with self._lock:
            descriptor = self._open(file)
            for number in range(SLOTS_IN_GROUP):
                byte = first + number
                held_by = self._holders.get((file, byte))
                if held_by is not None and held_by() is not None:
                    continue
                if held_by is None and not _lock(descriptor, byte):
                    continue
                self._holders[file, byte] = weakref.ref(holder)
                return Slot(number, file, byte)
        raise OSError(errno.EAGAIN, f"all {SLOTS_IN_GROUP} worker slots are taken")

    def give_back(self, slot: Slot, holder: object) -> None:
        """Let others have a slot. Does nothing when it was lost meanwhile."""
        with self._lock:
            held_by = self._holders.get((slot.file, slot.byte))
            if held_by is not None and held_by() is holder:
                del self._holders[slot.file, slot.byte]
                import fcntl

                fcntl.lockf(self._files[slot.file], fcntl.LOCK_UN, 1, slot.byte)
                if not self._holders:
                    self._close()  # Nothing is left that this would unlock.

    def look_after(self) -> int:
        """Show those who clean temporary files that ours are in use, and return the generation.

        When files were removed all the same, newcomers lock other files, and what was taken here is void.
        """
        with self._lock:
            for descriptor in self._files.values():
                os.utime(descriptor)
                if os.fstat(descriptor).st_nlink == 0:
                    self._close()
                    self.generation += 1
                    break
            return self.generation

    def abandon(self) -> None:
        """Close the descriptors in a fork's child, which leaves the parent its locks."""
        self._lock = threading.Lock()  # Another thread of the parent may have held it.
        self._close()
        self.generation += 1

    def _open(self, file: int) -> int:
        if file not in self._files:
            if self._directory < 0:
                self._directory = _open_directory()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(f"slots-{file:02}", flags, 0o600, dir_fd=self._directory)
            self._files[file] = descriptor
        return self._files[file]

    def _close(self) -> None:
        for descriptor in (*self._files.values(), self._directory):
            if descriptor >= 0:
                os.close(descriptor)
        self._directory = -1
        self._files.clear()
        self._holders.clear()


def _lock(descriptor: int, byte: int) -> bool:
    import fcntl  # Costs the import of the package as much as the digest below.

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _digest(group: bytes) -> bytes:
    import hashlib  # Costs the import of the package a tenth.

    return hashlib.blake2b(group, digest_size=8).digest()


def _open_directory() -> int:
    """Return a descriptor of the directory for the lock files; raises OSError when there is none that is safe."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_ours(runtime):
        return _private_directory(f"{runtime}/pushmetrics")
    import tempfile  # Costs the import of the package a tenth.

    return _private_directory(f"{tempfile.gettempdir()}/pushmetrics-{os.geteuid()}")


def _is_ours(path: str) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116 - pathlib would cost the import of the package a tenth
    except OSError:
        return False  # In a container, for one.
    return status.st_uid == os.geteuid()  # After `sudo` it may be that of the user before.


def _private_directory(path: str) -> int:
    """Make sure that `path` is a directory to which nobody else has access, and return a descriptor of it.

    In a shared directory anybody may have been there before: with a link to somewhere else, or to own what we use.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib would cost the import of the package a tenth
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "belongs to somebody else, or others have access to it", path)
    return descriptor


slot_files = SlotFiles()
"""The lock files of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=slot_files.abandon)
