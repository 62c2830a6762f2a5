"""A Hugging Face checkpoint of a llama model in GGUF, as other servers want it.

``python checkpoint.py MODEL.gguf FOLDER``, with a Python that has ``gguf``,
``safetensors`` and ``tokenizers``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3


class Source:
    """The model file, by the names of its facts."""

    def __init__(self, path: str) -> None:
        self.reader = gguf.GGUFReader(path)

    def fact(self, key: str, default: Any = None) -> Any:
        """Return what the file says under *key*."""
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def llama(self, key: str, default: Any = None) -> Any:
        """Return a fact of the model."""
        return self.fact(f"llama.{key}", default)

    def token(self, key: str) -> Any:
        """Return a fact of the tokenizer."""
        return self.fact(f"tokenizer.{key}")


def interleaved(weight: Any, heads: int) -> Any:
    """Undo GGUF's order of rotary rows: pairs lie together there, halves here."""
    rows = weight.reshape(heads, -1, 2, weight.shape[-1])
    return rows.swapaxes(1, 2).reshape(weight.shape)


def tensors(source: Source) -> dict[str, Any]:
    heads = {
        "attn_q": source.llama("attention.head_count"),
        "attn_k": source.llama("attention.head_count_kv"),
    }
    found = {}
    for tensor in source.reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type)
        name = OUTSIDE.get(tensor.name)
        if name is None:
            _, layer, part, end = tensor.name.split(".")
            if part in heads:
                weight = interleaved(weight, heads[part])
            name = f"model.layers.{layer}.{INSIDE[part]}.{end}"
        found[name] = np.ascontiguousarray(weight.astype(np.float16))
    return found


def config(source: Source, *, tied: bool) -> dict[str, Any]:
    width = source.llama("embedding_length")
    heads = source.llama("attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float16",
        "hidden_act": "silu",
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": source.llama("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.llama("attention.head_count_kv"),
        "num_hidden_layers": source.llama("block_count"),
        "max_position_embeddings": source.llama("context_length"),
        "rms_norm_eps": float(source.llama("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(source.llama("rope.freq_base", 10000.0)),
        "vocab_size": len(source.token("ggml.tokens")),
        "bos_token_id": source.token("ggml.bos_token_id"),
        "eos_token_id": source.token("ggml.eos_token_id"),
        "tie_word_embeddings": tied,
    }


def tokenizer(source: Source) -> Tokenizer:
    """Return the byte-level tokenizer, which takes digits one by one."""
    words = source.token("ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in source.token("ggml.merges")]
    made = Tokenizer(
        models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=merges)
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    made.decoder = decoders.ByteLevel()
    kinds = source.token("ggml.token_type")
    made.add_special_tokens(
        [
            AddedToken(word, special=True, normalized=False)
            for word, kind in zip(words, kinds, strict=True)
            if kind == _CONTROL
        ]
    )
    return made


def main(model: str, folder: str) -> None:
    source, out = Source(model), Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    weights = tensors(source)
    words = source.token("ggml.tokens")
    facts = config(source, tied="lm_head.weight" not in weights)
    end = words[facts["eos_token_id"]]
    tokens = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": words[facts["bos_token_id"]],
        "eos_token": end,
        "pad_token": end,
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts["max_position_embeddings"],
        "chat_template": source.token("chat_template"),
    }
    generation = {key: facts[key] for key in ("bos_token_id", "eos_token_id")}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer(source).save(str(out / "tokenizer.json"))
    for name, content in (
        ("config", facts),
        ("tokenizer_config", tokens),
        ("generation_config", generation),
    ):
        (out / f"{name}.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
