"""A tiny random eye for the bundled model: what llama.cpp calls an mmproj file.

No registry has a small vision model. This one sees nothing that makes sense, but an
image becomes tokens at its place in the prompt, which is what tests can count.
"""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sglrun.backends.local import gguf

TOKENS_PER_IMAGE = 16
_SIDE, _PATCH = 56, 14
_WIDTH, _INNER, _HEADS, _LAYERS = 32, 64, 2, 2
_F32, _BOOL = 6, 7


def write_eye(path: Path, *, width: int = 576) -> None:
    """Write an eye for a model whose embeddings are *width* wide."""
    weights = _weights(width)
    tensors, offset = [], 0
    for name, values in weights.items():
        tensors.append(gguf.Tensor(name, values.shape[::-1], 0, offset))
        offset += values.nbytes + -values.nbytes % gguf.DEFAULT_ALIGNMENT
    with path.open("wb") as file:
        gguf.write_header(file, _entries(width), tensors, gguf.DEFAULT_ALIGNMENT)
        for values in weights.values():
            file.write(values.tobytes())
            file.write(bytes(-values.nbytes % gguf.DEFAULT_ALIGNMENT))


def _entries(width: int) -> list[gguf.Entry]:
    numbers = {
        "image_size": _SIDE,
        "patch_size": _PATCH,
        "embedding_length": _WIDTH,
        "feed_forward_length": _INNER,
        "projection_dim": width,
        "block_count": _LAYERS,
        "attention.head_count": _HEADS,
    }
    half = struct.pack("<IQ3f", _F32, 3, 0.5, 0.5, 0.5)
    epsilon = struct.pack("<f", 1e-5)
    return [
        _text("general.architecture", "clip"),
        _text("clip.projector_type", "mlp"),
        _flag("clip.has_vision_encoder"),
        _flag("clip.has_llava_projector"),
        _flag("clip.use_gelu"),
        *(
            gguf.Entry(f"clip.vision.{key}", gguf.UINT32, struct.pack("<I", number))
            for key, number in numbers.items()
        ),
        gguf.Entry("clip.vision.attention.layer_norm_epsilon", _F32, epsilon),
        gguf.Entry("clip.vision.image_mean", gguf.ARRAY, half),
        gguf.Entry("clip.vision.image_std", gguf.ARRAY, half),
    ]


def _text(key: str, value: str) -> gguf.Entry:
    return gguf.Entry(key, gguf.STRING, struct.pack("<Q", len(value)) + value.encode())


def _flag(key: str) -> gguf.Entry:
    return gguf.Entry(key, _BOOL, b"\1")


def _weights(width: int) -> Mapping[str, np.ndarray]:
    drawn = np.random.default_rng(7)

    def matrix(*shape: int) -> np.ndarray:
        return drawn.normal(0, 0.2, shape).astype(np.float32)

    found = {
        "v.patch_embd.weight": matrix(_WIDTH, 3, _PATCH, _PATCH),
        "v.class_embd": matrix(_WIDTH),
        "v.position_embd.weight": matrix(TOKENS_PER_IMAGE + 1, _WIDTH),
        "mm.0.weight": matrix(width, _WIDTH),
        "mm.0.bias": matrix(width),
        "mm.2.weight": matrix(width, width),
        "mm.2.bias": matrix(width),
    }
    norms = ["v.pre_ln", *(f"v.blk.{n}.ln{k}" for n in range(_LAYERS) for k in (1, 2))]
    for norm in norms:
        found[f"{norm}.weight"] = np.ones(_WIDTH, np.float32)
        found[f"{norm}.bias"] = np.zeros(_WIDTH, np.float32)
    for layer in range(_LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            found[f"v.blk.{layer}.{part}.weight"] = matrix(_WIDTH, _WIDTH)
            found[f"v.blk.{layer}.{part}.bias"] = matrix(_WIDTH)
        for part, (out, into) in {
            "ffn_down": (_WIDTH, _INNER),
            "ffn_up": (_INNER, _WIDTH),
        }.items():
            found[f"v.blk.{layer}.{part}.weight"] = matrix(out, into)
            found[f"v.blk.{layer}.{part}.bias"] = matrix(out)
    return found
