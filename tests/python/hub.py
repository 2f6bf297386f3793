# SPDX-License-Identifier: Apache-2.0
"""Small models of transformers with random weights, attention written out, exported as its users export them.

    python tests/python/hub.py FOLDER [NAME...]
"""

import contextlib
import pathlib
import sys
import tempfile
import warnings

import torch
import transformers
from torch import nn

EAGER = {"attn_implementation": "eager"}
SMALL = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64}
IDS = {"bos_token_id": 1, "eos_token_id": 2}


def ids(length):
    return torch.randint(3, 97, (2, length))


def mask(length, left=False):
    keep = torch.ones(2, length, dtype=torch.long)
    keep[1, :3 if left else -3] = 0
    return keep


def bert():
    config = transformers.BertConfig(**SMALL, **EAGER)
    return transformers.BertModel(config), {"input_ids": ids(12), "attention_mask": mask(12)}


def gpt2():
    config = transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False,
                                     **IDS, **EAGER)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids(12), "attention_mask": mask(12)}


def llama():
    config = transformers.LlamaConfig(num_key_value_heads=2, use_cache=False, **SMALL, **IDS, **EAGER)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids(12), "attention_mask": mask(12, left=True)}


def t5():
    config = transformers.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   feed_forward_proj="gated-gelu", decoder_start_token_id=0, use_cache=False, **EAGER)
    model = transformers.T5ForConditionalGeneration(config)
    return model, {"input_ids": ids(12), "attention_mask": mask(12), "decoder_input_ids": ids(7)}


VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16,
          "patch_size": 4}


def vit():
    return transformers.ViTModel(transformers.ViTConfig(**VISION, **EAGER)), {"pixel_values": torch.randn(2, 3, 16, 16)}


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=15,
        max_target_positions=20, pad_token_id=0, decoder_start_token_id=1, use_cache=False, suppress_tokens=None,
        begin_suppress_tokens=None, **IDS, **EAGER)
    model = transformers.WhisperForConditionalGeneration(config)
    return model, {"input_features": torch.randn(2, 8, 30), "decoder_input_ids": ids(7)}


def clip():
    text = {**SMALL, "projection_dim": 32, "bos_token_id": 1, "eos_token_id": 98, "pad_token_id": 0, **EAGER}
    config = transformers.CLIPConfig(text_config=text, vision_config={**VISION, "projection_dim": 32, **EAGER},
                                     projection_dim=32, **EAGER)
    words = ids(12)
    words[:, -1] = 98
    inputs = {"input_ids": words, "pixel_values": torch.randn(2, 3, 16, 16), "attention_mask": mask(12)}
    return transformers.CLIPModel(config), inputs


# What a model has of each: attentions, those of them with repeated heads, layer norms that its decomposed form
# takes apart, RMS norms, and GELUs and SiLUs that it writes out itself.
MODELS = {
    "bert": (bert, {"attention": 2}),
    "gpt2": (gpt2, {"attention": 2, "gelu": 2}),
    "llama": (llama, {"attention": 2, "heads": 2, "rms": 5}),
    "t5": (t5, {"attention": 6, "rms": 12, "gelu": 4}),
    "vit": (vit, {"attention": 2}),
    "whisper": (whisper, {"attention": 6}),
    "clip": (clip, {"attention": 4}),
    "bert_decomposed": (bert, {"attention": 2, "linear": 13, "norm": 5}),
    "gpt2_decomposed": (gpt2, {"attention": 2, "linear": 9, "norm": 5, "gelu": 2}),
    "llama_decomposed": (llama, {"attention": 2, "heads": 2, "rms": 5, "linear": 15, "silu": 2}),
    "vit_decomposed": (vit, {"attention": 2, "linear": 13, "norm": 5}),
    "bert_bf16": (bert, {"attention": 2}),
    "llama_bf16": (llama, {"attention": 2, "heads": 2, "rms": 5}),
    "bert_dynamic": (bert, {"attention": 2}),
}


class Plain(nn.Module):
    """What comes out as tensors, so that the file can be loaded without transformers."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        out = self.model(**dict(zip(self.names, values, strict=True)))
        return {name: value for name, value in out.items() if isinstance(value, torch.Tensor)}


@contextlib.contextmanager
def masks_without_vmap():
    """As transformers' own exporter does it: what vmap leaves in a graph cannot be saved."""
    try:
        from transformers import masking_utils
        from transformers.integrations.executorch import sdpa_mask_without_vmap
    except ImportError:
        yield
        return
    old, masking_utils.sdpa_mask = masking_utils.sdpa_mask, sdpa_mask_without_vmap
    try:
        yield
    finally:
        masking_utils.sdpa_mask = old


def export(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name][0]()
    for parameter in model.parameters():  # norms and biases are ones and zeros at first
        parameter.data += 0.1 * torch.randn_like(parameter)
    if name.endswith("bf16"):
        model.to(torch.bfloat16)
    dynamic = None
    if name.endswith("dynamic"):
        batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
        dynamic = (tuple({0: batch, 1: length} for _ in inputs),)
    with torch.no_grad(), masks_without_vmap():
        plain = Plain(model, list(inputs)).eval()
        program = torch.export.export(plain, tuple(inputs.values()), dynamic_shapes=dynamic, strict=False)
        return program.run_decompositions() if name.endswith("decomposed") else program


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for wanted in sys.argv[2:] or MODELS:
        path = pathlib.Path(sys.argv[1]) / f"{wanted}.pt2"
        with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:  # the file is whole as soon as it is there
            torch.export.save(export(wanted), pathlib.Path(folder) / path.name)
            (pathlib.Path(folder) / path.name).rename(path)
