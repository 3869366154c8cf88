"""Files from folders, the cache and a local server: the order of places, checked bytes, and nothing left behind."""

import functools
import hashlib
import http.server
import io
import socket
import sys
import threading
import zipfile

import numpy as np
import pytest
import torch

from pyro_pivid.datasets import DataNotFoundError, load_sachs, load_syntren, sachs, syntren
from pyro_pivid.datasets.sources import PublicFile, fetch, find_folder
from pyro_pivid.ops.graph import dag_to_cpdag

CONTENT = b"as published"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder and the address it is served at."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))
    ) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("PIVID_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pyro_pivid"


def _public(address, content=CONTENT):
    return PublicFile(f"{address}/file.txt", hashlib.sha256(content).hexdigest())


def _all_files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def _needs_pooch():
    pytest.importorskip("pooch", reason="pooch, which downloads, is not installed")


def test_a_download_is_checked_kept_and_not_repeated(server, cache):
    _needs_pooch()
    folder, address = server
    (folder / "file.txt").write_bytes(CONTENT)
    found = fetch("garden", _public(address))
    assert found == cache / "file.txt"
    assert found.read_bytes() == CONTENT
    (folder / "file.txt").unlink()
    assert fetch("garden", _public(address)) == found


def test_a_wrong_checksum_leaves_nothing_behind(server, cache):
    _needs_pooch()
    folder, address = server
    (folder / "file.txt").write_bytes(b"<html>please log in</html>")
    public = _public(address)
    with pytest.raises(ValueError, match="were not kept") as caught:
        fetch("garden", public)
    assert not _all_files(cache.parent)
    message = str(caught.value)
    assert public.sha256 in message
    assert hashlib.sha256(b"<html>please log in</html>").hexdigest() in message
    assert f"fetch {public.url}" in message
    assert "'garden'" in message
    assert "PIVID_DATA" in message
    assert not isinstance(caught.value, DataNotFoundError)


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    _needs_pooch()
    folder, address = server
    cache.mkdir(parents=True)
    (cache / "file.txt").write_bytes(CONTENT[:4])
    with pytest.raises(DataNotFoundError):  # the server has no such file yet: the damaged one goes all the same
        fetch("garden", _public(address))
    assert not _all_files(cache.parent)
    (cache / "file.txt").write_bytes(CONTENT[:4])
    (folder / "file.txt").write_bytes(CONTENT)
    assert fetch("garden", _public(address)).read_bytes() == CONTENT


def test_no_network_is_a_clear_error(cache, monkeypatch):
    _needs_pooch()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        public = _public(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DataNotFoundError, match="Expected to download 'file.txt'.*but that failed") as caught:
            fetch("garden", public)
    assert f"fetch {public.url} (SHA-256 {public.sha256})" in str(caught.value)
    assert "set PIVID_DATA" in str(caught.value)
    assert not _all_files(cache.parent)


def test_without_pooch_the_error_says_what_to_install(monkeypatch, cache):
    monkeypatch.setitem(sys.modules, "pooch", None)
    public = _public("https://example.org")
    with pytest.raises(DataNotFoundError, match="package pooch.*pyro-pivid\\[datasets\\].*By hand: fetch https://exam"):
        fetch("garden", public)
    cache.mkdir(parents=True)
    (cache / "file.txt").write_bytes(CONTENT)  # the cache is read without it
    assert fetch("garden", public) == cache / "file.txt"


def test_the_path_comes_before_the_variable_and_that_before_the_cache(tmp_path, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    public = _public("https://example.org")
    explicit, variable = tmp_path / "explicit", tmp_path / "variable"
    for folder in (explicit / "garden", variable, cache):
        folder.mkdir(parents=True)
        (folder / "file.txt").write_bytes(CONTENT)
    monkeypatch.setenv("PIVID_DATA", str(variable))
    assert fetch("garden", public, explicit) == explicit / "garden" / "file.txt"
    assert fetch("garden", public, explicit / "garden" / "file.txt") == explicit / "garden" / "file.txt"
    assert fetch("garden", public) == variable / "file.txt"
    (variable / "file.txt").unlink()
    assert fetch("garden", public) == cache / "file.txt"
    with pytest.raises(DataNotFoundError, match="Expected 'file.txt' in .*variable"):
        fetch("garden", public, variable)  # an explicit path is the only place looked at


def test_a_users_file_with_other_bytes_is_refused_and_left_alone(tmp_path):
    (tmp_path / "file.txt").write_bytes(b"other")
    with pytest.raises(ValueError, match=f"to have the SHA-256 {_public('x').sha256}, but got"):
        fetch("garden", _public("https://example.org"), tmp_path)
    assert (tmp_path / "file.txt").read_bytes() == b"other"


def test_a_variable_that_names_no_folder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PIVID_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataNotFoundError, match="Expected PIVID_DATA to be an existing folder"):
        find_folder("garden", ["file.txt"])
    monkeypatch.setenv("PIVID_DATA", "")
    assert find_folder("garden", ["file.txt"]) is None


def _as_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _archive(prefix, links):
    values = np.arange(12.0).reshape(4, 3) ** 2
    classes = dag_to_cpdag(torch.tensor([[0, 0, 1], [0, 0, 1], [0, 0, 0]])).numpy().astype(float)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in (("data2", values), ("DAG2", links), ("CPDAG2", classes), ("data12", values[:1])):
            archive.writestr(f"{prefix}{name}.npy", _as_npy(array))
        archive.writestr(f"__MACOSX/{prefix}._data2.npy", b"shadow")
    return stream.getvalue(), values


@pytest.mark.parametrize("prefix", ["", "syntren_p20/"])
def test_syntren_from_the_public_archive(server, monkeypatch, prefix):
    _needs_pooch()
    folder, address = server
    links = np.array([[0.0, 0, 1], [0, 0, 1], [0, 0, 0]])  # X1 → X3 ← X2
    content, values = _archive(prefix, links)
    (folder / "syntren_p20.zip").write_bytes(content)
    public = PublicFile(f"{address}/syntren_p20.zip", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(syntren, "_ARCHIVE", public)
    real = load_syntren(2)
    np.testing.assert_array_equal(real.data.to_numpy(), values)
    np.testing.assert_array_equal(real.truth.numpy(), links)
    assert real.names == ["X1", "X2", "X3"]
    assert real.source == public.url
    with pytest.raises(ValueError, match="Expected one file 'data3.npy'"):
        load_syntren(3)


def test_syntren_archive_with_turned_links_is_noticed(tmp_path, monkeypatch):
    content, _ = _archive("", np.array([[0.0, 0, 0], [0, 0, 0], [1, 1, 0]]))
    (tmp_path / "syntren_p20.zip").write_bytes(content)
    monkeypatch.setattr(
        syntren, "_ARCHIVE", PublicFile("https://e.org/syntren_p20.zip", hashlib.sha256(content).hexdigest())
    )
    with pytest.raises(ValueError, match="to have the class CPDAG2.npy"):
        load_syntren(2, path=tmp_path)


def test_sachs_from_the_public_file(tmp_path, monkeypatch):
    num_rows = sum(sachs.CONDITIONS.values())
    lines = ["\t".join(["raf", "mek", "plc", "pip2", "pip3", "erk", "akt", "pka", "pkc", "p38", "jnk"])]
    lines += ["\t".join(f"{row + column / 16:.4f}" for column in range(11)) for row in range(num_rows)]
    content = ("\n".join(lines) + "\n").encode()
    name = sachs._FULL.name
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(sachs, "_FULL", PublicFile(f"https://e.org/{name}", hashlib.sha256(content).hexdigest()))
    real = load_sachs(path=tmp_path, conditions="pma")
    start = 853 + 902 + 911 + 723 + 810 + 799 + 848
    expected = np.arange(start, start + 913)[:, None] + np.arange(11) / 16
    np.testing.assert_array_equal(real.data.to_numpy(), expected)
    assert real.interventions["PKC"].all()
    assert real.interventions.to_numpy().sum() == 913


def test_public_files_are_pinned_to_a_commit():
    for public in (sachs._FULL, syntren._ARCHIVE):
        owner_name_commit = public.url.removeprefix("https://raw.githubusercontent.com/").split("/")
        assert len(owner_name_commit[2]) == 40
        assert int(owner_name_commit[2], 16)
        assert len(public.sha256) == 64
        assert int(public.sha256, 16)
