"""Unpacking: what is plain comes out, what could do harm is refused as a whole and by name."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading

import pytest
from small_disk import SmallDisk

from potato_ray.agent.errors import ArchiveRefused, DiskFull, Stopped
from potato_ray.agent.unpack import UnpackLimits, unpack


def member(name, content=b"", kind=tarfile.REGTYPE, **more):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


@pytest.fixture
def pack(tmp_path):
    def make(*members, form=tarfile.PAX_FORMAT):
        path = tmp_path / "in" / "bundle.tar.gz"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w:gz", format=form) as tar:
            for info, content in members:
                tar.addfile(info, io.BytesIO(content))
        return path

    return make


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "bundle"


def refusal(archive, out, **options):
    """What is said; nothing is left, inside or outside of the folder."""
    with pytest.raises(ArchiveRefused) as refused:
        unpack(archive, out, **options)
    assert list(out.parent.iterdir()) == []
    assert sorted(path.name for path in out.parent.parent.iterdir()) == ["in", "out"]
    return refused.value


def test_files_and_folders_come_out_private(pack, out):
    archive = pack(
        member("manifest.json", b"{}", mode=0o4777),
        member("media", kind=tarfile.DIRTYPE, mode=0o777),
        member("media/été.png", b"picture"),
        member("deep/er/file", b""),
    )
    unpack(archive, out)
    assert (out / "manifest.json").read_bytes() == b"{}"
    assert (out / "media" / "été.png").read_bytes() == b"picture"
    assert (out / "deep" / "er" / "file").read_bytes() == b""
    assert (out / "manifest.json").stat().st_mode & 0o7777 == 0o600
    assert out.stat().st_mode & 0o777 == (out / "media").stat().st_mode & 0o777 == 0o700
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_every_form_of_tar_is_read(pack, out, form):
    name = "media/" + "n" * (90 if form == tarfile.USTAR_FORMAT else 200)
    contents = [bytes([number]) * (512 * number) for number in range(4)]
    archive = pack(
        *[member(f"{name}{number}", content) for number, content in enumerate(contents)], form=form
    )
    unpack(archive, out)
    assert [(out / f"{name}{number}").read_bytes() for number in range(4)] == contents


def test_names_that_begin_in_the_folder_itself_are_read(pack, out):
    unpack(pack(member(".", kind=tarfile.DIRTYPE), member("./a", b"1"), member("b/./c", b"2")), out)
    assert (out / "a").read_bytes() == b"1"
    assert (out / "b" / "c").read_bytes() == b"2"


def test_a_folder_that_is_there_stays(pack, out):
    out.mkdir()
    unpack(pack(member("a", b"1")), out)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "begins at the root"),
        ("../evil", "leads out of its folder"),
        ("a/../../evil", "leads out of its folder"),
        ("a/b/..", "leads out of its folder"),
        ("n" * 256, "a part of it too long"),
        ("n/" * 33 + "n", "is too deep"),
        ("nnnnnnn/" * 130 + "n", "is too long"),
        ("a\nb", "control characters"),
        ("a\x1b[2Jb", "control characters"),
        ("\udcff", "not in UTF-8"),
    ],
)
def test_a_name_that_no_file_should_have_is_refused(pack, out, name, why):
    archive = pack(member("before", b"1"), member(name, b"evil"), form=tarfile.GNU_FORMAT)
    said = refusal(archive, out).message
    assert why in said
    assert said.isprintable()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "'evil' is a link"),
        (tarfile.LNKTYPE, "'evil' is a link"),
        (tarfile.CHRTYPE, "'evil' is a device"),
        (tarfile.BLKTYPE, "'evil' is a device"),
        (tarfile.FIFOTYPE, "'evil' is a named pipe"),
        (tarfile.CONTTYPE, "'evil' is no plain file"),
        (b"Z", "'evil' is no plain file"),
    ],
)
def test_what_is_no_plain_file_is_refused(pack, out, kind, what):
    archive = pack(member("a", b"1"), member("evil", kind=kind, linkname="a"))
    assert what in refusal(archive, out).message


def test_a_file_cannot_be_written_through_a_link(pack, out, tmp_path):
    archive = pack(member("way", kind=tarfile.SYMTYPE, linkname=str(tmp_path)), member("way/evil", b"evil"))
    assert "'way' is a link" in refusal(archive, out).message


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a"), ("a//b", "a/b"), (".",), ("",)]
)
def test_names_that_collide_are_refused(pack, out, names):
    assert "in the way" in refusal(pack(*[member(name, b"1") for name in names]), out).message


def test_a_folder_in_the_place_of_a_file_is_refused(pack, out):
    archive = pack(member("a", b"1"), member("a", kind=tarfile.DIRTYPE))
    assert "in the way" in refusal(archive, out).message


def test_a_sparse_file_is_refused(pack, out):
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1000000"}
    refusal(pack(member("evil", b"1\n0\n1\n".ljust(512, b"\0") + b"x", pax_headers=headers)), out)


def test_too_many_files_are_refused(pack, out):
    archive = pack(*[member(str(number)) for number in range(4)])
    limits = UnpackLimits(n_members=3)
    assert "more than 3 files" in refusal(archive, out, limits=limits).message


def test_too_many_bytes_are_refused(pack, out):
    archive = pack(member("a", os.urandom(100_000)))
    assert "unpacks into more than" in refusal(archive, out, limits=UnpackLimits(n_bytes=50_000)).message


def test_an_archive_that_swells_is_refused(pack, out):
    archive = pack(member("a", bytes(5_000_000)))
    limits = UnpackLimits(free_bytes=1_000_000)
    assert "unpacks into more than" in refusal(archive, out, limits=limits).message


def test_many_small_files_do_not_pass_the_limit_together(pack, out):
    archive = pack(*[member(str(number), os.urandom(10_000)) for number in range(10)])
    refusal(archive, out, limits=UnpackLimits(n_bytes=50_000))


def packed(tmp_path, raw):
    path = tmp_path / "in" / "raw.tar.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(raw))
    return path


def header(name="a", size=0, kind=b"0"):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


END = bytes(1024)
HUGE = 1 << 33


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no tar at all" * 100,
        header(size=100),
        header(size=1000) + bytes(512),
        header(),
        header() + b"x" * 512 + header("b") + END,
        header() + END + b"something more",
        header(size=HUGE, kind=b"x") + bytes(1 << 20),
        header(size=HUGE, kind=b"L") + bytes(1 << 20),
        header(size=-1024, kind=b"0") + END,
        header(size=-1024, kind=b"x") + END,
        header(size=-1024, kind=b"L") + END,
        header(size=0, kind=b"x") * 5000 + header() + END,
        header(size=512, kind=b"x") + b"0 a=b\n".ljust(512, b"\0") + header() + END,
        header(size=512, kind=b"g") + b"9 a=bcde\n".ljust(512, b"\0") + header() + END,
    ],
)
def test_a_damaged_archive_is_refused(tmp_path, out, raw):
    refusal(packed(tmp_path, raw), out)


def test_an_archive_whose_packing_is_damaged_is_refused(pack, out):
    archive = pack(member("a", os.urandom(100_000)))
    whole = archive.read_bytes()
    for damaged in (whole[:-1000], whole[:500] + b"\0" * 50 + whole[550:], b"plain", whole + b"more"):
        archive.write_bytes(damaged)
        assert refusal(archive, out).code == "bad_archive"


def test_a_stop_leaves_nothing(pack, out):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        unpack(pack(member("a", b"1")), out, stop=stop)
    assert list(out.parent.iterdir()) == []


def test_a_full_disk_is_told_and_left_clean(pack, out):
    archive = pack(member("a", os.urandom(3 << 20)))
    with SmallDisk(out.parent, 1):
        with pytest.raises(DiskFull) as full:
            unpack(archive, out)
        assert list(out.parent.iterdir()) == []
    assert full.value.code == "disk_full"


def test_who_comes_second_finds_the_work_done(pack, out, monkeypatch):
    archive = pack(member("a", b"1"))
    monkeypatch.setattr(
        "potato_ray.agent.unpack._unpack_into",
        lambda archive, aside, *_: (out.mkdir(), (out / "a").touch(), (aside / "b").touch()),
    )
    unpack(archive, out)
    assert [path.name for path in out.parent.iterdir()] == ["bundle"]
    assert [path.name for path in out.iterdir()] == ["a"]
