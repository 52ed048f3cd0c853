"""Journals: what was written comes back, a torn end is cut, a changed byte refused, a full disk leaves a whole file."""

import resource
from contextlib import contextmanager
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidJournal, StorageFull
from paddock.server.journal import (
    MAGIC,
    Attached,
    Carried,
    Closed,
    Header,
    JournalFile,
    digest,
    extend_chain,
    pack_entry,
    recover,
)
from paddock.server.served_env import ServedEnv

HEADER = Header("5e55", "CartPole-v1", {"gravity": 9.8}, b"\x01" * 32, True)
ATTACHED = Attached(3, b"t" * 32, b"s" * 32, "me", 4)


def test_a_server_knows_the_journals_that_it_wrote_when_its_code_lay_in_other_files():
    then = "7df82568887e4404f02a92223224f547b3696d827472f93820198e5ec606776c"
    assert ServedEnv("CartPole-v1").digest.hex() == then


def carried(count=4, size=20):
    """Entries that continue one chain."""
    chain, found = HEADER.origin, []
    for number in range(1, count + 1):
        request, reply = bytes([number]) * size, digest(b"reply %d" % number)
        chain = extend_chain(chain, digest(request), reply)
        found.append(Carried(number, request, reply, chain))
    return found


def written(*entries):
    """The file's bytes and where each entry ends."""
    data, crc, ends = MAGIC, 0, []
    for entry in entries:
        part, crc = pack_entry(entry, crc)
        data += part
        ends.append(len(data))
    return data, ends


ENTRIES = [HEADER, ATTACHED, *carried()]


def test_what_was_written_comes_back():
    data, ends = written(*ENTRIES)
    found = recover(BytesIO(data))
    assert (found.header, found.attached, found.closed, found.lost) == (HEADER, ATTACHED, False, "")
    assert found.frames == [entry.request for entry in carried()] and found.chain == carried()[-1].chain
    assert found.length == ends[-1] and found.count == 4


def test_a_closed_session_and_a_lost_one_are_told_apart():
    assert recover(BytesIO(written(HEADER, Closed())[0])).closed
    found = recover(BytesIO(written(HEADER, Closed("signal"))[0]))
    assert (found.closed, found.lost) == (False, "signal")


def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_entry():
    data, ends = written(*ENTRIES)
    for cut in range(len(data)):
        for tail in (b"", bytes(100)):  # a crash may leave zeros behind what was written
            if tail and cut in ends:
                continue
            found = recover(BytesIO(data[:cut] + tail))
            whole = [end for end in ends if end <= cut]
            # Zeros may be what was to be written.
            longest = [end for end in ends if data[cut:end].strip(b"\0") == b""]
            assert (found.length if found else 0) in ({*whole[-1:]} or {0}) | set(longest if tail else ())


def test_a_changed_byte_before_the_last_entry_is_refused():
    data, ends = written(*ENTRIES)
    for place in range(ends[-2]):
        broken = bytearray(data)
        broken[place] ^= 0x40
        with pytest.raises(InvalidJournal):
            recover(BytesIO(bytes(broken)))


def test_a_changed_last_entry_is_left_out():
    data, ends = written(*ENTRIES)
    for place in range(ends[-2] + 12, ends[-1]):
        broken = bytearray(data)
        broken[place] ^= 0x40
        assert recover(BytesIO(bytes(broken))).count == 3


def test_an_entry_left_out_doubled_or_moved_is_refused():
    data, ends = written(*ENTRIES)
    parts = [data[start:end] for start, end in zip([len(MAGIC), *ends], ends, strict=False)]
    for order in ([0, 2, 3, 4, 5], [0, 1, 2, 2, 3, 4, 5], [0, 1, 3, 2, 4, 5]):
        with pytest.raises(InvalidJournal):
            recover(BytesIO(MAGIC + b"".join(parts[place] for place in order)))


def test_a_chain_that_does_not_continue_is_refused():
    first, second, *_ = carried()
    for entries in ((second,), (first, first), (first, Carried(2, b"other", second.reply, second.chain))):
        with pytest.raises(InvalidJournal, match="does not continue the chain"):
            recover(BytesIO(written(HEADER, *entries)[0]))


@pytest.mark.parametrize("data", [b"PDKJRNL2" + bytes(20), b"GIF89a" + bytes(99), b"\0\0\0\0PDKJ", b"\x80"])
def test_other_files_are_refused(data):
    with pytest.raises(InvalidJournal):
        recover(BytesIO(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_journal_or_refused(data):
    for whole in (data, MAGIC + data, written(HEADER)[0] + data):
        try:
            recover(BytesIO(whole))
        except InvalidJournal:
            continue


def test_equal_requests_in_another_environment_have_another_chain():
    assert Header("5e55", "CartPole-v1", {"gravity": 9.9}, b"\x01" * 32, True).origin != HEADER.origin


@pytest.mark.parametrize("sync", ["never", "reply", "batch"])
def test_a_file_goes_on_where_it_ended(tmp_path, sync):
    path = tmp_path / "journal"
    file = JournalFile.create(path, HEADER, sync)
    for entry in [ATTACHED, *carried()[:2]]:
        file.append(entry)
    file.sync()
    file.close()
    path.write_bytes(path.read_bytes() + b"\x07torn")
    again, found = JournalFile.reopen(path, sync)
    assert found.count == 2
    for entry in carried()[2:]:
        again.append(entry)
    assert again.read().frames == [entry.request for entry in carried()]
    assert path.read_bytes() == written(*ENTRIES)[0]
    assert path.stat().st_mode & 0o777 == 0o600
    again.remove()
    again.close()
    assert not path.exists()


def test_a_journal_is_never_written_over(tmp_path):
    JournalFile.create(tmp_path / "journal", HEADER).close()
    with pytest.raises(FileExistsError):
        JournalFile.create(tmp_path / "journal", HEADER)


def test_a_journal_without_a_header_holds_nothing(tmp_path):
    (tmp_path / "journal").write_bytes(MAGIC + b"\x07")
    assert JournalFile.reopen(tmp_path / "journal") is None


@contextmanager
def room_for(limit_bytes):
    """Files can't grow past this: the system writes what fits and then refuses, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_whole_entries_only_wherever_it_becomes_full(tmp_path):
    _, ends = written(*ENTRIES)
    for limit in range(0, ends[-1], 7):
        path = tmp_path / f"journal{limit}"
        with room_for(limit), pytest.raises(StorageFull, match="can't be written"):
            file = JournalFile.create(path, HEADER, "never")
            for entry in ENTRIES[1:]:
                file.append(entry)
        if limit < ends[0]:
            assert not path.exists()
            continue
        whole = max(end for end in ends if end <= limit)
        assert path.stat().st_size == whole
        with pytest.raises(StorageFull):  # there is room again, but an entry is missing
            file.append(carried()[-1])
        assert file.read().length == whole
        file.close()


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path):
    with pytest.raises(StorageFull):
        JournalFile.create(tmp_path / "missing" / "journal", HEADER)
