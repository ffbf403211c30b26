"""Files are written whole, and only files are replaced."""

import os
import stat
import threading

import pytest

from outvote.data.writing import whole, write_text


def test_permissions_are_kept(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o640)
    with whole(path) as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o640
        partial.write_text("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    assert write_text(tmp_path / "new", "text").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("exists", [True, False])
def test_links_are_followed(tmp_path, exists):
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_pipes_are_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_folders_and_files_that_may_not_be_written_are_refused(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder: give a file in it"):
        write_text(tmp_path, "text")
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="may not be written to"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    failed = whole(path)
    failed.__enter__().write_text("half")
    assert not failed.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page.html", "old")]


@pytest.mark.parametrize("name", ["日" * 80 + ".html", "a." + "b" * 253, "." + "c" * 254])
def test_names_as_long_as_the_file_system_takes_are_written(tmp_path, name):
    assert write_text(tmp_path / name, "text").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_written_at_once_do_not_mix(tmp_path):
    with whole(tmp_path / "a.txt") as one, whole(tmp_path / "b.txt") as other:
        one.write_text("a")
        other.write_text("b")
    assert [(tmp_path / f"{name}.txt").read_text() for name in "ab"] == ["a", "b"]
