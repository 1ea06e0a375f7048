from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dytox.config import DataConfig
from dytox.data import cifar100, datasets
from dytox.data.samples import Dataset
from dytox.errors import UserError


def published(value: Any, core: str = "numpy.core") -> bytes:
    """The opcodes of Python 2's pickle, protocol 2, as in the published files."""

    def string(text: bytes) -> bytes:
        return (
            b"U" + bytes([len(text)]) + text
            if len(text) < 256
            else b"T" + struct.pack("<i", len(text)) + text
        )

    def write(value: Any) -> bytes:
        if isinstance(value, bytes):
            return string(value)
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        if isinstance(value, list):
            return b"](" + b"".join(map(write, value)) + b"e"
        if isinstance(value, dict):
            return b"}(" + b"".join(write(key) + write(each) for key, each in value.items()) + b"u"
        assert isinstance(value, np.ndarray)
        empty = b"c" + core.encode() + b".multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R"
        dtype = b"cnumpy\ndtype\n" + string(value.dtype.str[1:].encode()) + b"K\0K\x01\x87R"
        dtype += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
        shape = b"(" + b"".join(map(write, value.shape)) + b"t"
        return empty + b"(K\x01" + shape + dtype + b"\x89" + string(value.tobytes()) + b"tb"

    return b"\x80\x02" + write(value) + b"."


def content(labels: list[int], first: int = 0) -> dict[bytes, Any]:
    rows = np.arange(first, first + 3072 * len(labels)).reshape(-1, 3072) % 251
    names = [b"a_s_%06d.png" % number for number in range(len(labels))]
    return {
        b"filenames": names,
        b"fine_labels": labels,
        b"coarse_labels": labels,
        b"data": rows.astype(np.uint8),
    }


META = {b"fine_label_names": [b"apple", b"bear"], b"coarse_label_names": [b"food"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    where = tmp_path / "cifar-100-python"
    where.mkdir()
    (where / "train").write_bytes(published(content([1, 0, 1, 0, 1])))
    (where / "test").write_bytes(published(content([0, 1], first=7)))
    (where / "meta").write_bytes(published(META))
    return tmp_path


def load(root: Path | None) -> Dataset:
    return datasets.load(DataConfig(dataset="cifar100", root=None if root is None else str(root)))


@pytest.mark.parametrize("inside", ["", "cifar-100-python"])
def test_the_published_layout_is_read(root: Path, inside: str) -> None:
    data = load(root / inside)
    assert data.name == "cifar100"
    assert data.class_names == ("apple", "bear")
    assert data.train.labels.tolist() == [1, 0, 1, 0, 1]
    assert data.train.images.shape == (5, 3, 32, 32)
    # A row is the red plane, then the green, then the blue one, each row by row.
    assert data.train.images[0, :, 2, 3].tolist() == [67, (1024 + 67) % 251, (2048 + 67) % 251]
    assert data.test.images[1, 0, 0, 0] == (7 + 3072) % 251


@pytest.mark.parametrize(
    "write", [lambda value: published(value, "numpy._core"), lambda value: pickle.dumps(value, 2)]
)
def test_files_written_by_python_3_and_numpy_2_are_read_too(root: Path, write: Any) -> None:
    before = load(root)
    data = write(content([1, 0, 1, 0, 1]))
    assert np.array_equal(pickle.loads(data, encoding="bytes")[b"data"], content([0] * 5)[b"data"])
    (root / "cifar-100-python" / "train").write_bytes(data)
    (root / "cifar-100-python" / "meta").write_bytes(write(META))
    assert torch.equal(load(root).train.images, before.train.images)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("evil",)


HOSTILE = {
    "a call": pickle.dumps({b"data": Evil()}, 2),
    "a call of protocol 4": pickle.dumps({b"data": Evil()}, 4),
    "a text pickle": b"cposix\nmkdir\n(S'evil'\ntR.",
    "an instance": b"(S'evil'\niposix\nmkdir\n.",
    "numpy's loader": b"\x80\x02cnumpy\nload\nU\x04evil\x85R.",
    "another codec": b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x04\0\0\0zlib\x86R.",
    "a huge memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a huge string": b"\x80\x02T\xff\xff\xff\x7fabc.",
    "a deep key": b"\x80\x02})" + 10**6 * b"\x85" + b"Ns.",
    "a deep key out of the memo": b"\x80\x02})" + 10**6 * b"q\x00h\x00\x86" + b"Ns.",
    "a deep list": b"\x80\x02" + 10**6 * b"]" + 10**6 * b"a" + b".",
    "a state for a stand-in": b"\x80\x02cnumpy\nndarray\n}U\x01aU\x01bsb.",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", ["train", "meta"])
def test_a_hostile_pickle_runs_nothing(
    root: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (root / "cifar-100-python" / name).write_bytes(HOSTILE[kind])
    with pytest.raises(
        UserError, match=rf"cifar-100-python/{name} is not CIFAR-100 as published \(.+\): remove"
    ):
        load(root)
    assert not (tmp_path / "evil").exists()


def test_the_name_that_a_hostile_pickle_asks_for_is_told(root: Path) -> None:
    (root / "cifar-100-python" / "meta").write_bytes(HOSTILE["a call"])
    with pytest.raises(UserError, match=r"asks for (posix|nt)\.mkdir"):
        load(root)


def test_a_file_cut_off_anywhere_is_named(root: Path) -> None:
    path = root / "cifar-100-python" / "train"
    whole = path.read_bytes()
    for length in [0, 1, 2, 3, 10, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"train is not CIFAR-100 as published .* remove .*fetched again"):
            load(root)


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ([1, 2], "holds a list"),
        ({b"fine_labels": [0, 1]}, "no images and fine labels"),
        ({**content([0, 1]), b"fine_labels": [0]}, r"1 labels and images of shape \(2, 3072\)"),
        (content([0, 2]), "labels that are not 0 to 1"),
        ({**content([0, 1]), b"data": np.zeros((2, 3072), dtype=np.int16)}, "array of b'i2'"),
        ({**content([0, 1]), b"data": np.zeros(2 * 3072, dtype=np.uint8)}, "not one of images"),
        (content([]), "0 labels"),
    ],
)
def test_contents_that_do_not_fit_are_refused(root: Path, train: Any, words: str) -> None:
    (root / "cifar-100-python" / "train").write_bytes(published(train))
    with pytest.raises(UserError, match=words):
        load(root)


def test_missing_folders_and_files_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar100, "_fetch", lambda base: pytest.fail("nothing should be fetched"))
    with pytest.raises(UserError, match=r"There is no folder .*gone: .*--data"):
        load(root / "gone")
    (root / "cifar-100-python" / "test").unlink()
    for where in (root, root / "cifar-100-python"):
        with pytest.raises(UserError, match="cifar-100-python lacks the file test"):
            load(where)


@pytest.fixture
def archive(root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive as on the web, but small, with more in it than is wanted; it is what the URL gives."""
    path = tmp_path_factory.mktemp("web") / "cifar-100-python.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(root / "cifar-100-python", "cifar-100-python")
        for name in ("cifar-100-python/file.txt~", "../escaped"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    monkeypatch.setattr(cifar100, "URL", path.as_uri())
    monkeypatch.setattr(cifar100, "MD5", hashlib.md5(path.read_bytes()).hexdigest())
    return path


def test_where_it_is_absent_it_is_fetched(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    assert len(load(empty).train) == 5
    assert [path.name for path in empty.iterdir()] == ["cifar-100-python"]
    assert sorted(path.name for path in (empty / "cifar-100-python").iterdir()) == ["meta", "test", "train"]
    captured = capsys.readouterr()
    assert "Fetching" in captured.err
    assert "100 %" in captured.err
    assert captured.out == ""
    archive.unlink()
    assert len(load(empty).train) == 5  # from now on without the web


def test_without_a_root_it_goes_to_the_cache(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load(None).train) == 5
    assert (tmp_path / ".cache" / "dytox" / "cifar-100-python" / "train").is_file()


def test_an_archive_put_there_by_hand_is_unpacked_and_kept(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar100, "_download", lambda path: pytest.fail("nothing should be fetched"))
    assert len(load(archive.parent).train) == 5
    assert archive.is_file()


def test_an_archive_with_another_checksum_is_refused(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.setattr(cifar100, "MD5", "0" * 32)
    with pytest.raises(UserError, match=r"^What file://.* gave is not the published archive \(MD5 "):
        load(empty)
    assert list(empty.iterdir()) == []
    with pytest.raises(UserError, match=r"^.*web\d+/cifar-100-python\.tar\.gz is not the published archive"):
        load(archive.parent)


def test_an_archive_without_the_files_is_refused(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("something/else"), io.BytesIO(b""))
    monkeypatch.setattr(cifar100, "MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    with pytest.raises(UserError, match="cannot be unpacked"):
        load(archive.parent)
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_without_a_network_it_says_where_to_put_it(
    archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    archive.unlink()
    with pytest.raises(
        UserError, match=r"is not in .*empty\d+ and could not be fetched .*No such file.*--data"
    ):
        load(empty)
    assert list(empty.iterdir()) == []


# --- the real files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> Dataset:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    where = Path(os.environ.get("DYTOX_DATA", beside))
    if not (where / "cifar-100-python" / "train").is_file():
        pytest.skip(f"no CIFAR-100 in {where}; DYTOX_DATA names the folder that holds cifar-100-python")
    return load(where)


@pytest.mark.cifar100
def test_the_real_dataset_has_its_published_shape(real: Dataset) -> None:
    assert real.train.images.shape == (50_000, 3, 32, 32)
    assert real.test.images.shape == (10_000, 3, 32, 32)
    assert torch.bincount(real.train.labels).tolist() == [500] * 100
    assert torch.bincount(real.test.labels).tolist() == [100] * 100
    assert real.class_names[:3] == ("apple", "aquarium_fish", "baby")
    assert real.class_names[-1] == "worm"


@pytest.mark.cifar100
def test_the_real_pixels_have_the_known_mean_of_each_colour(real: Dataset) -> None:
    means = real.train.images[::10].double().mean((0, 2, 3)) / 255
    # The figures that the field normalises with, in the order red, green, blue.
    assert means.tolist() == pytest.approx([0.5071, 0.4865, 0.4409], abs=0.01)
