"""The conversion of weights."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest

from sglrun.backends.local import gguf
from sglrun.backends.local.quantize import F32, Q4_1, Q8_0, convert
from sglrun.errors import ModelError

Q4_1_BLOCK = np.dtype([("scale", "<f2"), ("least", "<f2"), ("steps", "u1", 16)])
Q8_0_BLOCK = np.dtype([("scale", "<f2"), ("steps", "i1", 32)])


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


ENTRIES = (
    gguf.Entry("general.architecture", gguf.STRING, string("llama")),
    gguf.Entry("general.file_type", gguf.UINT32, struct.pack("<I", 3)),
    gguf.Entry(
        "words",
        gguf.ARRAY,
        struct.pack("<IQ", gguf.STRING, 2) + string("ä") + string(""),
    ),
    gguf.Entry("numbers", gguf.ARRAY, struct.pack("<IQ3f", 6, 3, 1, 2, 3)),
    gguf.Entry("flag", 7, b"\x01"),
)


def model(path: Path, *tensors: tuple[gguf.Tensor, bytes]) -> Path:
    """Write a model file of *tensors* with their data."""
    with path.open("wb") as file:
        gguf.write_header(file, ENTRIES, [tensor for tensor, _ in tensors], 32)
        start = file.tell()
        for tensor, data in tensors:
            file.write(bytes(start + tensor.offset - file.tell()) + data)
    return path


def blocks(count: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    random = np.random.default_rng(1)
    made = np.zeros(count, Q4_1_BLOCK)
    made["scale"] = random.uniform(0, 0.1, count)
    made["least"] = random.uniform(-1, 0, count)
    made["steps"] = random.integers(0, 256, (count, 16))
    made[0] = (0, 0, [0] * 16)
    return made


def test_weights_stay_what_they_are(tmp_path: Path) -> None:
    """Converted weights differ by no more than half a step of the new scale."""
    made = blocks(70000)  # more than is read at once
    plain = np.arange(5, dtype="<f4")
    source = model(
        tmp_path / "a.gguf",
        (gguf.Tensor("plain", (5,), F32, 0), plain.tobytes()),
        (gguf.Tensor("w", (32, 70000), Q4_1, 32), made.tobytes()),
    )
    convert(source, tmp_path / "b.gguf")
    with (tmp_path / "b.gguf").open("rb") as file:
        header = gguf.read_header(file)
        file.seek(header.data_start)
        data = file.read()
    first, second = header.tensors
    got = np.frombuffer(data, Q8_0_BLOCK, 70000, second.offset)
    low, high = made["steps"] & 15, made["steps"] >> 4
    steps = np.concatenate([low, high], axis=1).astype(np.float32)
    scale, least = (made[n].astype(np.float32)[:, None] for n in ("scale", "least"))
    unit = got["scale"].astype(np.float32)[:, None]
    error = np.abs(got["steps"] * unit - (steps * scale + least))

    assert (first.kind, second.kind, second.shape) == (F32, Q8_0, (32, 70000))
    assert np.frombuffer(data, "<f4", 5).tolist() == plain.tolist()
    assert (error <= unit * 0.5 + 1e-3).all()
    kept = [entry for entry in ENTRIES if entry.key != "general.file_type"]
    assert [e for e in header.entries if e.key != "general.file_type"] == kept
    assert header.entries[1].value == struct.pack("<I", 7)


def test_a_header_is_read_as_it_was_written() -> None:
    """Writing and reading a header gives the same metadata and tensors."""
    tensors = (gguf.Tensor("é", (2, 3, 4), F32, 64), gguf.Tensor("b", (), F32, 0))
    entries = (*ENTRIES, gguf.Entry("general.alignment", 4, struct.pack("<I", 64)))
    file = io.BytesIO()
    gguf.write_header(file, entries, tensors, 64)
    end = file.seek(0, io.SEEK_END)
    file.seek(0)

    assert gguf.read_header(file) == gguf.Header(entries, tensors, end, 64)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "damaged"),
        (b"GGUF\x03\0\0\0", "damaged"),
        (b"PK\x03\x04\x03\0\0\0" + bytes(16), "not a GGUF file"),
        (b"GGUF\x01\0\0\0" + bytes(16), "not a GGUF file"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + b"\x63\0\0\0",
            "damaged",
        ),
    ],
)
def test_what_is_no_model_is_refused(data: bytes, what: str, tmp_path: Path) -> None:
    """A file that is cut short, of another format or version is named in the error."""
    source = tmp_path / "a.gguf"
    source.write_bytes(data)

    with pytest.raises(ModelError, match=rf"a\.gguf.*{what}"):
        convert(source, tmp_path / "b.gguf")


@pytest.mark.parametrize(("kind", "what"), [(Q4_1, "cut short in w"), (77, "type 77")])
def test_damaged_data_is_refused(kind: int, what: str, tmp_path: Path) -> None:
    """Data that ends too early, or of a type that is not known, is refused."""
    source = model(
        tmp_path / "a.gguf",
        (gguf.Tensor("w", (32, 4), kind, 0), blocks(3).tobytes()),
    )

    with pytest.raises(ModelError, match=what):
        convert(source, tmp_path / "b.gguf")
