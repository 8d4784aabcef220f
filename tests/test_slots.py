"""The lock files of worker slots, with real processes and real locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pushmetrics.slots import FILES, SlotFiles

if TYPE_CHECKING:
    from slot_process import NewProcess

pytest_plugins = ["slot_process"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no file locks of this kind")


class Holder:
    """Whatever takes slots in a process, such as a reporter's workers."""


@pytest.fixture(autouse=True)
def runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_each_process_gets_the_lowest_free_slot_of_each_group(new_process: NewProcess) -> None:
    first, second, third = new_process(), new_process(), new_process()

    assert [process.take(b"a") for process in (first, second, third)] == [0, 1, 2]
    assert [process.take(b"b") for process in (third, first)] == [0, 1]


def test_a_process_that_is_killed_frees_its_slots_and_the_others_keep_theirs(
    new_process: NewProcess,
) -> None:
    first, second = new_process(), new_process()
    first.take(b"a")
    second.take(b"a")
    first.kill()

    assert new_process().take(b"a") == 0
    assert new_process().take(b"a") == 2


class TestInOneProcess:
    def test_two_holders_get_different_slots(self) -> None:
        files = SlotFiles()
        holders = Holder(), Holder()

        assert [files.take(b"a", holder).number for holder in holders] == [0, 1]

    def test_a_slot_given_back_is_free_here_and_elsewhere(self, new_process: NewProcess) -> None:
        files = SlotFiles()
        holder = Holder()
        slot = files.take(b"a", holder)
        other = new_process()
        assert other.take(b"a") == 1
        files.give_back(slot, holder)
        files.give_back(slot, holder)

        assert new_process().take(b"a") == 0
        assert files.take(b"a", holder).number == 2

    def test_when_the_last_one_is_given_back_nothing_stays_open(self, runtime_directory: Path) -> None:
        files = SlotFiles()
        holder = Holder()
        slots = [files.take(group, holder) for group in (b"a", b"b", b"c")]
        for slot in slots:
            assert files._files
            files.give_back(slot, holder)

        assert files._files == {}
        assert files.take(b"a", holder).number == 0

    def test_a_holder_that_is_gone_holds_nothing(self) -> None:
        files = SlotFiles()
        holder = Holder()
        files.take(b"a", holder)
        del holder

        new = Holder()
        assert files.take(b"a", new).number == 0

    def test_only_its_holder_gives_a_slot_back(self, new_process: NewProcess) -> None:
        files = SlotFiles()
        holder = Holder()
        slot = files.take(b"a", holder)
        files.give_back(slot, Holder())

        assert new_process().take(b"a") == 1

    def test_many_groups_share_a_bounded_number_of_files(self, runtime_directory: Path) -> None:
        files = SlotFiles()
        holder = Holder()
        slots = [files.take(b"%d" % number, holder) for number in range(2000)]

        assert {slot.number for slot in slots} == {0}
        assert len(list((runtime_directory / "pushmetrics").iterdir())) == FILES


class TestAfterAFork:
    def test_the_child_has_slots_of_its_own_and_the_parent_keeps_its(self, new_process: NewProcess) -> None:
        # In a process of its own: this one has threads.
        program = """
import os
from pushmetrics.slots import slot_files
class Holder: pass
holder = Holder()
print(slot_files.take(b"a", holder).number, flush=True)
child = os.fork()
if child == 0:
    print(slot_files.take(b"a", holder).number, flush=True)
    os._exit(0)
os.waitpid(child, 0)
child = os.fork()
if child == 0:
    slot_files.abandon()
    os._exit(0)
os.waitpid(child, 0)
input()
"""
        parent = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        assert [int(parent.stdout.readline()) for _ in range(2)] == [0, 1]

        assert new_process().take(b"a") == 1, "the child's went with it, and the parent still has the first"
        parent.kill()
        parent.communicate()
        assert new_process().take(b"a") == 0

    def test_a_child_that_lives_on_does_not_keep_the_parents_slots(self, new_process: NewProcess) -> None:
        program = """
import os, signal
from pushmetrics.slots import slot_files
class Holder: pass
holder = Holder()
slot_files.take(b"a", holder)
child = os.fork()
if child == 0:
    signal.pause()
print(child, flush=True)
os._exit(0)
"""
        parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait()
        try:
            assert new_process().take(b"a") == 0
        finally:
            os.kill(child, signal.SIGKILL)
            parent.stdout.close()


class TestTheDirectory:
    def test_it_is_private(self, runtime_directory: Path) -> None:
        SlotFiles().take(b"a", Holder())
        directory = runtime_directory / "pushmetrics"

        assert directory.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}

    def test_without_a_runtime_directory_it_is_in_the_temporary_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        for unusable in ("", "relative", str(tmp_path / "missing")):
            monkeypatch.setenv("XDG_RUNTIME_DIR", unusable)
            SlotFiles().take(b"a", Holder())

        assert [entry.name for entry in tmp_path.iterdir()] == [f"pushmetrics-{os.geteuid()}"]

    def test_a_link_to_elsewhere_is_refused(self, runtime_directory: Path) -> None:
        elsewhere = runtime_directory / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        (runtime_directory / "pushmetrics").symlink_to(elsewhere)

        with pytest.raises(OSError, match="pushmetrics"):
            SlotFiles().take(b"a", Holder())
        assert list(elsewhere.iterdir()) == []

    def test_a_file_that_is_a_link_to_elsewhere_is_refused(self, runtime_directory: Path) -> None:
        SlotFiles().take(b"a", Holder())
        (file,) = (runtime_directory / "pushmetrics").iterdir()
        file.unlink()
        file.symlink_to(runtime_directory / "elsewhere")

        with pytest.raises(OSError, match=file.name):
            SlotFiles().take(b"a", Holder())
        assert not (runtime_directory / "elsewhere").exists()

    @pytest.mark.parametrize("mode", [0o770, 0o701, 0o722])
    def test_a_directory_to_which_others_have_access_is_refused(self, runtime_directory: Path, mode: int) -> None:
        directory = runtime_directory / "pushmetrics"
        directory.mkdir()
        directory.chmod(mode)

        with pytest.raises(OSError, match="others have access"):
            SlotFiles().take(b"a", Holder())

    def test_a_directory_of_somebody_else_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        somebody = os.geteuid() + 1
        (tmp_path / f"pushmetrics-{somebody}").mkdir(mode=0o700)
        monkeypatch.setattr("os.geteuid", lambda: somebody)

        with pytest.raises(OSError, match="belongs to somebody else"):
            SlotFiles().take(b"a", Holder())

    def test_the_runtime_directory_of_the_user_before_sudo_is_left_alone(
        self, runtime_directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(runtime_directory / "missing"))
        somebody = os.geteuid() + 1
        monkeypatch.setattr("os.geteuid", lambda: somebody)

        with pytest.raises(OSError, match="missing"):
            SlotFiles().take(b"a", Holder())
        assert list(runtime_directory.iterdir()) == []

    def test_files_that_were_removed_are_noticed(self, runtime_directory: Path, new_process: NewProcess) -> None:
        files = SlotFiles()
        holder = Holder()
        slot = files.take(b"a", holder)
        before = files.look_after()
        assert files.look_after() == before
        (file,) = (runtime_directory / "pushmetrics").iterdir()
        file.unlink()
        new_process().take(b"a")

        assert files.look_after() != before
        assert files.take(b"a", holder).number == 1
        files.give_back(slot, holder)

    def test_those_who_clean_old_files_see_that_they_are_in_use(self, runtime_directory: Path) -> None:
        files = SlotFiles()
        holder = Holder()
        files.take(b"a", holder)
        (file,) = (runtime_directory / "pushmetrics").iterdir()
        os.utime(file, (0, 0))
        files.look_after()

        assert file.stat().st_mtime > 0


def test_without_file_locks_there_are_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.name", "nt")  # As on Windows.

    with pytest.raises(OSError, match="no file locks"):
        SlotFiles().take(b"a", Holder())
