"""Tiny models of any architecture, with random weights."""

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sglrun.backends.local import gguf

F32, Q8_0, Q4_K = 0, 8, 12
WIDTH, HEADS, KEY = 256, 4, 64

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Weights:
    """One tensor: its name, its size (innermost first), and its type."""

    name: str
    shape: tuple[int, ...]
    kind: int = Q8_0


def attention(layer: int, kind: int, keys: int = HEADS) -> list[Weights]:
    """Return the weights of a layer that Llama has, with so many heads for keys."""
    at = f"blk.{layer}."
    return [
        Weights(f"{at}attn_norm.weight", (WIDTH,), F32),
        Weights(f"{at}ffn_norm.weight", (WIDTH,), F32),
        Weights(f"{at}attn_q.weight", (WIDTH, HEADS * KEY), kind),
        Weights(f"{at}attn_k.weight", (WIDTH, keys * KEY), kind),
        Weights(f"{at}attn_v.weight", (WIDTH, keys * KEY), kind),
        Weights(f"{at}attn_output.weight", (HEADS * KEY, WIDTH), kind),
        Weights(f"{at}ffn_gate.weight", (WIDTH, 2 * WIDTH), kind),
        Weights(f"{at}ffn_up.weight", (WIDTH, 2 * WIDTH), kind),
        Weights(f"{at}ffn_down.weight", (2 * WIDTH, WIDTH), kind),
    ]


def write_llama(
    path: Path, bundled: Path | None, *, kind: int = Q8_0, **more: Value
) -> Path:
    """Write a model of Llama's architecture, with *more* in its metadata."""
    layers = 3
    weights = [w for layer in range(layers) for w in attention(layer, kind)]
    return write_model(path, bundled, "llama", layers, weights, more)


def write_gemma(path: Path, bundled: Path, *, window: int) -> Path:
    """Write a model of Gemma 3's architecture: most layers see a *window* only."""
    layers = 6  # every sixth sees all
    weights = []
    for layer in range(layers):
        at = f"blk.{layer}."
        weights += attention(layer, Q8_0)
        weights += [
            Weights(f"{at}{name}.weight", (size,), F32)
            for name, size in (
                ("post_attention_norm", WIDTH),
                ("post_ffw_norm", WIDTH),
                ("attn_q_norm", KEY),
                ("attn_k_norm", KEY),
            )
        ]
    more = {"attention.sliding_window": window}
    return write_model(path, bundled, "gemma3", layers, weights, more)


def write_mamba(path: Path, bundled: Path) -> Path:
    """Write a recurrent model."""
    inner, state, rank, kernel = 2 * WIDTH, 16, 16, 4
    at = "blk.0."
    weights = [
        Weights(f"{at}attn_norm.weight", (WIDTH,), F32),
        Weights(f"{at}ssm_in.weight", (WIDTH, 2 * inner)),
        Weights(f"{at}ssm_conv1d.weight", (kernel, inner), F32),
        Weights(f"{at}ssm_conv1d.bias", (inner,), F32),
        Weights(f"{at}ssm_x.weight", (inner, rank + 2 * state)),
        Weights(f"{at}ssm_dt.weight", (rank, inner), F32),
        Weights(f"{at}ssm_dt.bias", (inner,), F32),
        Weights(f"{at}ssm_a", (state, inner), F32),
        Weights(f"{at}ssm_d", (inner,), F32),
        Weights(f"{at}ssm_out.weight", (inner, WIDTH)),
    ]
    more = {
        "ssm.conv_kernel": kernel,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": rank,
    }
    return write_model(path, bundled, "mamba", 1, weights, more)


def write_model(
    path: Path,
    bundled: Path | None,
    architecture: str,
    layers: int,
    weights: Iterable[Weights],
    more: Mapping[str, Value],
) -> Path:
    """Write a model with the vocabulary of the *bundled* one, or of pieces."""
    said: dict[str, Value] = {
        "block_count": layers,
        "context_length": 4096,
        "embedding_length": WIDTH,
        "feed_forward_length": 2 * WIDTH,
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS,
        "attention.key_length": KEY,
        "attention.value_length": KEY,
        "attention.layer_norm_rms_epsilon": 1e-6,
        **more,
    }
    vocabulary = sentence_pieces() if bundled is None else bundled_pieces(bundled)
    (size,) = (
        struct.unpack_from("<Q", entry.value, 4)[0]
        for entry in vocabulary
        if entry.key == "tokenizer.ggml.tokens"
    )
    entries = [
        _entry("general.architecture", architecture),
        *(_entry(_full(key, architecture), value) for key, value in said.items()),
        *vocabulary,
    ]
    all_weights = [
        Weights("token_embd.weight", (WIDTH, size)),
        Weights("output_norm.weight", (WIDTH,), F32),
        *weights,
    ]
    random = np.random.default_rng(0)
    datas = [_data(each, random) for each in all_weights]
    tensors, offset = [], 0
    for each, data in zip(all_weights, datas, strict=True):
        tensors.append(gguf.Tensor(each.name, each.shape, each.kind, offset))
        offset += len(data)
    with path.open("wb") as file:
        gguf.write_header(file, entries, tensors, gguf.DEFAULT_ALIGNMENT)
        file.writelines(datas)
    return path


def bundled_pieces(bundled: Path) -> list[gguf.Entry]:
    """Return the vocabulary of the bundled model."""
    with bundled.open("rb") as file:
        entries = gguf.read_header(file).entries
    return [entry for entry in entries if entry.key.startswith("tokenizer.")]


def sentence_pieces() -> list[gguf.Entry]:
    """Return a vocabulary as SentencePiece has it, which begins texts with a space."""
    normal, unknown, control, byte = 1, 2, 3, 6
    words = ("ye", "yes", "no", "an", "answer", "is")
    plain = [*"\u2581{}[]:,.?", *map(chr, range(ord("a"), ord("z") + 1)), *words]
    plain += [f"\u2581{word}" for word in (*"abcdefghijklmnopqrstuvwxyz", *words)]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256)), *plain]
    kinds = [unknown, control, control, *[byte] * 256, *[normal] * len(plain)]
    scores = [float(len(piece)) for piece in pieces]
    count = len(pieces)
    texts = b"".join(_text(piece) for piece in pieces)
    arrays = {
        "tokens": struct.pack("<IQ", gguf.STRING, count) + texts,
        "scores": struct.pack(f"<IQ{count}f", 6, count, *scores),
        "token_type": struct.pack(f"<IQ{count}i", 5, count, *kinds),
    }
    return [
        _entry("tokenizer.ggml.model", "llama"),
        *(gguf.Entry(f"tokenizer.ggml.{k}", gguf.ARRAY, v) for k, v in arrays.items()),
        _entry("tokenizer.ggml.add_space_prefix", value=True),
        _entry("tokenizer.ggml.bos_token_id", 1),
        _entry("tokenizer.ggml.eos_token_id", 2),
        _entry("tokenizer.ggml.unknown_token_id", 0),
    ]


def _full(key: str, architecture: str) -> str:
    return key if key.startswith("general.") else f"{architecture}.{key}"


def _entry(key: str, value: Value) -> gguf.Entry:
    if isinstance(value, bool):
        return gguf.Entry(key, 7, struct.pack("<?", value))
    if isinstance(value, int):
        return gguf.Entry(key, gguf.UINT32, struct.pack("<I", value))
    if isinstance(value, float):
        return gguf.Entry(key, 6, struct.pack("<f", value))
    return gguf.Entry(key, gguf.STRING, _text(value))


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _data(weights: Weights, random: np.random.Generator) -> bytes:
    """Return random weights that keep what goes through them at its size."""
    count, scale = math.prod(weights.shape), 1 / math.sqrt(weights.shape[0])
    if weights.kind == F32:
        plain = random.normal(1, 0.2, count)
        data = (-plain if weights.name.endswith("ssm_a") else plain).astype("<f4")
        return data.tobytes()
    if weights.kind == Q8_0:
        block = np.dtype([("scale", "<f2"), ("steps", "i1", 32)])
        blocks = np.zeros(count // 32, block)
        blocks["steps"] = random.integers(-127, 128, (count // 32, 32))
        blocks["scale"] = scale / 64
        return blocks.tobytes()
    block = np.dtype(
        [("scale", "<f2"), ("least", "<f2"), ("scales", "u1", 12), ("steps", "u1", 128)]
    )
    blocks = np.zeros(count // 256, block)
    blocks["scales"] = random.integers(0, 256, (count // 256, 12))
    blocks["steps"] = random.integers(0, 256, (count // 256, 128))
    blocks["scale"], blocks["least"] = scale / 128, scale / 20
    return blocks.tobytes()
