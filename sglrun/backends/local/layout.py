"""The layout of llama.cpp's C interface at build b11549: structures and signatures.

The library changes both between builds without notice, so they hold for exactly one
version of the package that carries it; ``library`` checks that before anything is
called.
"""

import ctypes as c
from collections.abc import Mapping

PACKAGE = "xllamacpp"
VERSION = "2026.10.11549"

_pointer = c.c_void_p
_int32_p = c.POINTER(c.c_int32)
_uint32_p = c.POINTER(c.c_uint32)
_float_p = c.POINTER(c.c_float)


class ModelParams(c.Structure):
    """``llama_model_params``."""

    _fields_ = (
        ("devices", _pointer),
        ("tensor_buft_overrides", _pointer),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int32),
        ("load_mode", c.c_int32),
        ("lazy_mode", c.c_int32),
        ("main_gpu", c.c_int32),
        ("tensor_split", _pointer),
        ("progress_callback", _pointer),
        ("progress_callback_user_data", _pointer),
        ("kv_overrides", _pointer),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    )


class ContextParams(c.Structure):
    """``llama_context_params``."""

    _fields_ = (
        ("n_ctx", c.c_uint32),
        ("n_batch", c.c_uint32),
        ("n_ubatch", c.c_uint32),
        ("n_seq_max", c.c_uint32),
        ("n_rs_seq", c.c_uint32),
        ("n_outputs_max", c.c_uint32),
        ("n_outputs_max_per_seq", c.c_uint32),
        ("n_threads", c.c_int32),
        ("n_threads_batch", c.c_int32),
        ("ctx_type", c.c_int32),
        ("rope_scaling_type", c.c_int32),
        ("pooling_type", c.c_int32),
        ("attention_type", c.c_int32),
        ("flash_attn_type", c.c_int32),
        ("rope_freq_base", c.c_float),
        ("rope_freq_scale", c.c_float),
        ("yarn_ext_factor", c.c_float),
        ("yarn_attn_factor", c.c_float),
        ("yarn_beta_fast", c.c_float),
        ("yarn_beta_slow", c.c_float),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", _pointer),
        ("cb_eval_user_data", _pointer),
        ("type_k", c.c_int32),
        ("type_v", c.c_int32),
        ("moe_cache_size", c.c_size_t),
        ("abort_callback", _pointer),
        ("abort_callback_data", _pointer),
        ("embeddings", c.c_bool),
        ("offload_kqv", c.c_bool),
        ("no_perf", c.c_bool),
        ("op_offload", c.c_bool),
        ("swa_full", c.c_bool),
        ("kv_unified", c.c_bool),
        ("samplers", _pointer),
        ("n_samplers", c.c_size_t),
        ("ctx_other", _pointer),
    )


class Batch(c.Structure):
    """``llama_batch``: the tokens of one step."""

    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", _int32_p),
        ("embd", _float_p),
        ("pos", _int32_p),
        ("n_seq_id", _int32_p),
        ("seq_id", c.POINTER(_int32_p)),
        ("logits", c.POINTER(c.c_int8)),
    )


TokenizeFunction = c.CFUNCTYPE(
    c.c_size_t, _pointer, c.POINTER(c.c_uint8), c.c_size_t, _uint32_p, c.c_size_t
)
LogFunction = c.CFUNCTYPE(None, c.c_int32, c.c_char_p, _pointer)


class GrammarVocabulary(c.Structure):
    """``LlgTokenizerInit``: the vocabulary as the grammar engine reads it."""

    _fields_ = (
        ("vocab_size", c.c_uint32),
        ("tok_eos", c.c_uint32),
        ("token_lens", _uint32_p),
        ("token_bytes", c.c_char_p),
        ("tokenizer_json", c.c_char_p),
        ("tokenize_assumes_string", c.c_bool),
        ("tokenize_fn", TokenizeFunction),
        ("use_approximate_greedy_tokenize_fn", c.c_bool),
        ("tokenize_user_data", _pointer),
        ("slices", _pointer),
    )


class GrammarOptions(c.Structure):
    """``LlgConstraintInit``; its limits stand in the order of ``ParserLimits``."""

    _fields_ = (
        ("tokenizer", _pointer),
        ("log_buffer_level", c.c_uint32),
        ("log_stderr_level", c.c_uint32),
        ("ff_tokens_ok", c.c_bool),
        ("backtrack_ok", c.c_bool),
        ("limits", c.c_uint64 * 32),
    )


# What each structure holds when the library fills it; other values mean that another
# layout was compiled in.
MODEL_DEFAULTS: Mapping[str, object] = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "kv_overrides": None,
    "vocab_only": False,
    "use_extra_bufts": True,
    "no_alloc": False,
}
CONTEXT_DEFAULTS: Mapping[str, object] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "type_k": 1,
    "type_v": 1,
    "offload_kqv": True,
    "no_perf": True,
    "kv_unified": False,
    "samplers": None,
}

# Function to (result, arguments); each must be exported.
SIGNATURES: Mapping[str, tuple[object, tuple[object, ...]]] = {
    "llama_log_set": (None, (_pointer, _pointer)),
    "ggml_log_set": (None, (_pointer, _pointer)),
    "llama_backend_init": (None, ()),
    "llama_print_system_info": (c.c_char_p, ()),
    "llama_model_default_params": (ModelParams, ()),
    "llama_context_default_params": (ContextParams, ()),
    "llama_model_load_from_file": (_pointer, (c.c_char_p, ModelParams)),
    "llama_model_free": (None, (_pointer,)),
    "llama_model_n_ctx_train": (c.c_int32, (_pointer,)),
    "llama_model_n_swa": (c.c_int32, (_pointer,)),
    "llama_model_meta_val_str": (
        c.c_int32,
        (_pointer, c.c_char_p, c.c_char_p, c.c_size_t),
    ),
    "llama_model_has_encoder": (c.c_bool, (_pointer,)),
    "llama_model_is_diffusion": (c.c_bool, (_pointer,)),
    "llama_model_is_recurrent": (c.c_bool, (_pointer,)),
    "llama_model_is_hybrid": (c.c_bool, (_pointer,)),
    "llama_model_chat_template": (c.c_char_p, (_pointer, c.c_char_p)),
    "llama_model_get_vocab": (_pointer, (_pointer,)),
    "llama_vocab_n_tokens": (c.c_int32, (_pointer,)),
    "llama_vocab_bos": (c.c_int32, (_pointer,)),
    "llama_vocab_eos": (c.c_int32, (_pointer,)),
    "llama_vocab_eot": (c.c_int32, (_pointer,)),
    "llama_vocab_get_add_bos": (c.c_bool, (_pointer,)),
    "llama_vocab_is_eog": (c.c_bool, (_pointer, c.c_int32)),
    "llama_tokenize": (
        c.c_int32,
        (_pointer, c.c_char_p, c.c_int32, _int32_p, c.c_int32, c.c_bool, c.c_bool),
    ),
    "llama_token_to_piece": (
        c.c_int32,
        (_pointer, c.c_int32, c.c_char_p, c.c_int32, c.c_int32, c.c_bool),
    ),
    "llama_init_from_model": (_pointer, (_pointer, ContextParams)),
    "llama_free": (None, (_pointer,)),
    "llama_get_memory": (_pointer, (_pointer,)),
    "llama_memory_clear": (None, (_pointer, c.c_bool)),
    "llama_memory_seq_rm": (c.c_bool, (_pointer, c.c_int32, c.c_int32, c.c_int32)),
    "llama_memory_seq_cp": (
        None,
        (_pointer, c.c_int32, c.c_int32, c.c_int32, c.c_int32),
    ),
    "llama_memory_seq_add": (
        None,
        (_pointer, c.c_int32, c.c_int32, c.c_int32, c.c_int32),
    ),
    "llama_memory_can_shift": (c.c_bool, (_pointer,)),
    "llama_state_seq_get_size": (c.c_size_t, (_pointer, c.c_int32)),
    "llama_state_seq_get_data": (
        c.c_size_t,
        (_pointer, _pointer, c.c_size_t, c.c_int32),
    ),
    "llama_state_seq_set_data": (
        c.c_size_t,
        (_pointer, _pointer, c.c_size_t, c.c_int32),
    ),
    "llama_state_get_size": (c.c_size_t, (_pointer,)),
    "llama_state_get_data": (c.c_size_t, (_pointer, _pointer, c.c_size_t)),
    "llama_state_set_data": (c.c_size_t, (_pointer, _pointer, c.c_size_t)),
    "llama_decode": (c.c_int32, (_pointer, Batch)),
    "llama_get_logits": (_pointer, (_pointer,)),
    "llama_get_logits_ith": (_pointer, (_pointer, c.c_int32)),
    "llg_new_tokenizer": (
        _pointer,
        (c.POINTER(GrammarVocabulary), c.c_char_p, c.c_size_t),
    ),
    "llg_free_tokenizer": (None, (_pointer,)),
    "llg_constraint_init_set_defaults": (None, (c.POINTER(GrammarOptions), _pointer)),
    "llg_new_matcher": (
        _pointer,
        (c.POINTER(GrammarOptions), c.c_char_p, c.c_char_p),
    ),
    "llg_free_matcher": (None, (_pointer,)),
    "llg_clone_matcher": (_pointer, (_pointer,)),
    "llg_matcher_get_error": (c.c_char_p, (_pointer,)),
    "llg_matcher_compute_mask_into": (c.c_int32, (_pointer, _pointer, c.c_size_t)),
    "llg_matcher_get_mask_byte_size": (c.c_size_t, (_pointer,)),
    "llg_matcher_consume_token": (c.c_int32, (_pointer, c.c_uint32)),
    "llg_matcher_is_accepting": (c.c_bool, (_pointer,)),
    "llg_matcher_is_stopped": (c.c_bool, (_pointer,)),
}
