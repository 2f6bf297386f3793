# SPDX-License-Identifier: Apache-2.0
"""Exports small models of transformers, one for each model type, with random weights.

A case is a model type, or a type and a form of it: `bert`, `llama/no-grad`, `llama/static-cache`. Everything is
generic: the default configuration of the type is shrunk by the names of its fields, and the inputs are made from
the signature of `forward`. Run with the transformers on PYTHONPATH, whichever version that is.

    python tests/python/hub_types.py FOLDER CASE...
"""

import contextlib
import inspect
import json
import pathlib
import re
import sys
import warnings

import torch
import transformers
from transformers.models.auto import modeling_auto as auto

# The types that are downloaded most from the Hub, and one of each further family that people export.
MOST_USED = (
    "bert", "distilbert", "roberta", "xlm-roberta", "mpnet", "deberta-v2", "electra", "albert", "modernbert", "gpt2", "opt",
    "gpt_neox", "llama", "qwen2", "qwen3", "mistral", "gemma2", "phi3", "falcon", "mixtral", "t5", "bart", "whisper",
    "wav2vec2", "vit", "dinov2", "clip", "resnet", "swin", "detr")
FORMS = ("no-grad", "dynamic", "decomposed", "dynamic-cache", "static-cache")
PARAMETERS = 40_000_000  # the most that a model may have
LENGTH = 12

# ---- configurations ------------------------------------------------------------------------------

# The first pattern that matches the whole name of an integer field gives its small value, where the default is larger.
# Heads times the width of a head is the hidden size, so that the values agree with each other.
HIDDEN, HEADS, KV_HEADS, HEAD = 64, 4, 2, 16
SMALL = [
    (r".*(image|video|audio|boi|eoi|boa|eoa|pad|bos|eos|unk|sep|cls|mask|start|end|token)_(token_)?(id|index)", None),
    (r"(.*_)?vocab(ulary)?_size.*|n_tokens|vocab_size_per_layer_input", 128),
    (r"(.*_)?num_(key_value|kv)_heads|num_kv_heads|n_head_kv|multi_query_group_num", KV_HEADS),
    (r"(.*_)?(num|n)_?(attention_|attn_)?heads?|(encoder|decoder)_attention_heads|n_heads?|num_heads_.*", HEADS),
    (r"(.*_)?head_dim|d_kv|kv_channels|attention_head_size|(qk|v)_head_dim|kv_dim|(.*_)?head_size", HEAD),
    (r"qk_rope_head_dim|qk_nope_head_dim", HEAD),
    (r"rotary_dim|rotary_emb_dim", HEAD // 2),
    (r"(q|kv)_lora_rank|index_head_dim|.*lora_rank|.*_rank", 16),
    (r"(.*_)?(num_(hidden_|encoder_|decoder_|transformer_)*layers?|n_layers?|(encoder|decoder)_layers|num_blocks|layers)"
     r"|num_(detector|reasoning|language|lingual|vision|x)_layers|(l|x|r)_layers|depth|num_groups_of_layers", 2),
    (r"(.*_)?(intermediate|ffn|feedforward|ff|mlp|inner)_?(size|dim|hidden_size|embed_dim)?|d_ff|n_inner|ffn_dim"
     r"|(encoder|decoder)_ffn_dim|ffn_hidden_size|moe_intermediate_size|d_inner", 2 * HIDDEN),
    (r"(num|n)_(local_|routed_)?experts?|moe_num_experts|num_moe_experts", 4),
    (r"num_experts_per_tok|moe_topk|top_k|moe_k|num_selected_experts", 2),
    (r"n_group|topk_group|n_shared_experts|first_k_dense_replace|(mamba_)?n_groups", 1),
    (r"(.*_)?(max_position_embeddings|n_positions|n_ctx|max_(source|target)_positions|max_seq_len|seq_length|n_pos"
     r"|max_sequence_length|max_seq_length|block_size|max_2d_position_embeddings)", 128),
    (r"(.*_)?image_size|img_size|input_size", 32),
    (r"(.*_)?patch_size", 8),
    (r"num_frames|frames", 2),
    (r"(.*_)?num_mel_bins|num_mel_filters", 16),
    (r"(.*_)?num_(object_)?queries|num_query_tokens", 10),
    (r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|hidden_dim|dim|embedding_size|projection_dim|model_dim|width"
     r"|emb_dim|projector_hidden_act|hidden_channels|out_hidden_size|embedding_dim|d_embed|proj_size|conv_dim"
     r"|fpn_hidden_size|decoder_hidden_size|encoder_hidden_dim|decoder_hidden_dim|attention_dim|output_dim|hidden)", HIDDEN),
    (r"sliding_window|attention_window|local_attention|max_window_layers|window_size|chunk_size", 8),
    (r"(.*_)?(mamba|ssm|linear)_.*(heads)", HEADS),
]
LISTS = [(r"(.*_)?depths|layers_per_block|num_blocks|num_layers", 2), (r"attention_window", 8)]


def small_value(name, value):
    for pattern, small in SMALL:
        if re.fullmatch(pattern, name):
            return value if small is None else min(value, small)
    return value


def shrink(config, widths=True):
    """Shrinks a configuration in place, with those that it contains. Without `widths`, only layers and vocabulary."""
    heads = [getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads")]
    for name, value in list(vars(config).items()):
        if type(value).__name__ == "TimmBackboneConfig":  # timm is not among our packages
            setattr(config, name, resnet_backbone())
            continue
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value, widths)
            continue
        small = value
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            small = small_value(name, value)
            if not widths and small not in (2, 128):
                small = value
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
            for pattern, most in LISTS:
                if re.fullmatch(pattern, name):
                    small = type(value)(min(v, most) for v in value)
        if small != value:
            with contextlib.suppress(Exception):  # a property, which follows another field
                setattr(config, name, small)
    if widths:
        match_widths(config, grouped=heads[0] != heads[1])
    match_layers(config)
    limit_tokens(config)
    config.use_cache = False
    config.return_dict = True


def has(config, *names):
    return all(isinstance(getattr(config, name, None), int) for name in names)


def match_widths(config, grouped):
    """Sets what follows from other fields."""
    if has(config, "num_attention_heads", "num_key_value_heads") and not grouped:
        config.num_key_value_heads = config.num_attention_heads
    if has(config, "qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim"):  # latent attention
        config.qk_head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
    for heads, width, expand in (("num_heads", "head_dim", "expand"), ("mamba_n_heads", "mamba_d_head", "mamba_expand"),
                                 ("mamba_num_heads", "mamba_head_dim", "mamba_expand")):
        if has(config, heads, expand, "hidden_size"):  # state space models
            setattr(config, width, config.hidden_size * getattr(config, expand) // getattr(config, heads))


def match_layers(config):
    """As many layers as there are kinds of them, and two at least."""
    lists = {name: value for name, value in vars(config).items() if isinstance(value, list)
             and name.endswith(("layer_types", "layers_block_type")) and value and isinstance(value[0], str)}
    if lists and has(config, "num_hidden_layers"):
        combinations = list(dict.fromkeys(zip(*lists.values())))
        combinations = (combinations * 2)[:max(2, len(combinations))]
        config.num_hidden_layers = len(combinations)
        for name, values in zip(lists, zip(*combinations)):
            setattr(config, name, list(values))


def resnet_backbone():
    return transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
                                     out_features=["stage2", "stage3", "stage4"])


def limit_tokens(config):
    """Gives token ids beyond the vocabulary small values, each its own."""
    vocabulary = getattr(config, "vocab_size", None)
    if not isinstance(vocabulary, int) or vocabulary < 32:
        return
    following = vocabulary - 1
    for name, value in list(vars(config).items()):
        if re.fullmatch(r".*(token_id|token_index|token_type_id|_idx)", name) and isinstance(value, int) and value >= vocabulary:
            setattr(config, name, following)
            following -= 1


# What the rules above cannot know, by model type.
FIELDS = {
    "gpt2": dict(n_embd=HIDDEN), "clip": dict(), "dpr": dict(projection_dim=0),
    "albert": dict(embedding_size=32), "electra": dict(embedding_size=32),
    "mpnet": dict(relative_attention_num_buckets=32),
}


def configuration(kind, widths):
    config = transformers.AutoConfig.for_model(kind)
    shrink(config, widths)
    if getattr(config, "use_timm_backbone", False):
        config.use_timm_backbone, config.backbone, config.backbone_config = False, None, resnet_backbone()
    for name, value in FIELDS.get(kind, {}).items():
        setattr(config, name, value)
    return config


# ---- models --------------------------------------------------------------------------------------

HEADED = ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
          "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
          "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "MODEL_FOR_CTC_MAPPING_NAMES", "MODEL_MAPPING_NAMES")


def types():
    """All model types of the auto classes: the most used, those with a head, and the others, mostly parts of them."""
    tables = [getattr(auto, name) for name in HEADED if hasattr(auto, name)]
    return list(dict.fromkeys([*MOST_USED, *(kind for table in tables for kind in table)]))


def model_classes(kind):
    config = transformers.AutoConfig.for_model(kind)
    tables = list(HEADED)
    if getattr(config, "is_encoder_decoder", False):
        tables = [t for t in tables if "SEQ" in t] + [t for t in tables if "SEQ" not in t and "CAUSAL" not in t]
    elif hasattr(config, "text_config") and hasattr(config, "vision_config"):
        tables.insert(0, tables.pop())
    for name in tables:
        found = getattr(auto, name, {}).get(kind)
        for one in [found] if isinstance(found, str) else found or []:
            yield getattr(transformers, one)


def build(model_class, config):
    with torch.device("meta"):
        count = sum(p.numel() for p in model_class(config).parameters())
    if count > PARAMETERS:
        raise ValueError(f"{count:,} parameters are too many")
    torch.manual_seed(0)
    model = model_class(config).eval()
    for parameter in model.parameters():  # norms and biases are ones and zeros at first
        if parameter.is_floating_point():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


# ---- inputs --------------------------------------------------------------------------------------


def field(config, *names, default=None):
    """The first of these fields in a configuration or in one that it contains."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None and not callable(value):
            return value
    for part in vars(config).values():
        if isinstance(part, transformers.PretrainedConfig):
            value = field(part, *names)
            if value is not None:
                return value
    return default


def side(size):
    return tuple(size) if isinstance(size, (list, tuple)) else (size, size)


def token_ids(config, length=LENGTH):
    most = min(field(config, "vocab_size", default=100) - 8, 100)
    return torch.randint(3, max(most, 4), (2, length))


def images(config):
    size = field(config, "image_size", "img_size", "input_size")
    channels = field(config, "num_channels", "in_channels", "in_chans", default=3)
    for edge in (side(size) if isinstance(size, (int, list, tuple)) else (64, 64), (64, 64), (224, 224)):
        yield torch.randn(2, channels if isinstance(channels, int) else 3, *edge[:2])


def features(config):
    bins = field(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "feature_dim", default=80)
    frames = 2 * field(config, "max_source_positions", default=50)
    yield torch.randn(2, bins, frames)
    yield torch.randn(2, frames, bins)
    yield torch.randn(2, 100, bins)


def values_for(name, model):
    """Values to try for an input of this name."""
    config = model.config
    if name in ("input_ids", "decoder_input_ids"):
        return [token_ids(config)]
    if name == "attention_mask":
        mask = torch.ones(2, LENGTH, dtype=torch.long)
        mask[1, -3:] = 0
        return [mask]
    if name in ("pixel_values", "pixel_values_videos"):
        frames = field(config, "num_frames", default=2)
        return [*images(config), *(x[:, None].repeat(1, frames, 1, 1, 1) for x in images(config))]
    if name == "pixel_mask":
        return [None]
    if name == "input_values":
        return [torch.randn(2, 4000), torch.randn(2, 16000), torch.randn(2, 1, 4000), torch.randn(
            2, field(config, "max_length", default=64), field(config, "num_mel_bins", default=16))]
    if name == "input_features":
        return list(features(config))
    if name == "bbox":
        return [torch.zeros(2, LENGTH, 4, dtype=torch.long)]
    if name == "past_values":
        return [torch.randn(2, field(config, "context_length", default=32), field(config, "num_input_channels", default=1))]
    if name == "inputs_embeds":
        return [torch.randn(2, LENGTH, field(config, "hidden_size", "d_model", default=HIDDEN))]
    return []


def candidates(model):
    """Sets of inputs to try, the likeliest first."""
    signature = inspect.signature(model.forward).parameters
    required = [name for name, p in signature.items()
                if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    main = model.main_input_name
    names = [n for n in (main, *required) if n in signature]
    both = [n for n in ("input_ids", "pixel_values") if n in signature]
    dual = hasattr(model.config, "text_config") and hasattr(model.config, "vision_config") and len(both) == 2
    tries = [both] if dual else []
    seq2seq = getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in signature
    text = ["input_ids"] if "input_ids" in signature else []
    tries += [[*names, *(["decoder_input_ids"] if seq2seq else [])], names, text, both]
    for wanted in tries:
        wanted = list(dict.fromkeys(wanted))
        if not wanted:
            continue
        for masked in (True, False):
            if masked and not ("input_ids" in wanted and "attention_mask" in signature):
                continue
            given = [*wanted, "attention_mask"] if masked and "attention_mask" not in wanted else wanted
            values = [values_for(name, model) for name in given]
            for i in range(max((len(v) for v in values), default=0)):
                if all(values):
                    yield {n: v[min(i, len(v) - 1)] for n, v in zip(given, values) if v[min(i, len(v) - 1)] is not None}


def prepared(kind):
    """A model of this type and inputs that it runs on."""
    problems = []
    for widths in (True, False):
        for model_class in model_classes(kind):
            try:
                model = build(model_class, configuration(kind, widths))
            except Exception as error:
                problems.append(f"{model_class.__name__}: {type(error).__name__}: {error}"[:300])
                continue
            for inputs in candidates(model):
                try:
                    torch.manual_seed(0)
                    with torch.no_grad():
                        model(**inputs)
                    return model, inputs
                except Exception as error:
                    problems.append(f"{model_class.__name__}({', '.join(inputs)}): {type(error).__name__}: {error}"[:300])
    raise RuntimeError("no inputs found: " + " | ".join(problems[:4] + problems[-2:]))


# ---- exports -------------------------------------------------------------------------------------


@contextlib.contextmanager
def masks_without_vmap():
    """What vmap leaves in a graph cannot be saved; the exporter of transformers 4 avoids it in this way."""
    try:
        from transformers import masking_utils
        from transformers.integrations.executorch import sdpa_mask_without_vmap
    except ImportError:
        yield
        return
    functions = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    old = functions["sdpa"]
    functions["sdpa"] = sdpa_mask_without_vmap
    try:
        yield
    finally:
        functions["sdpa"] = old


def plain(model, inputs, **options):
    """As users call it, without torch.no_grad()."""
    return torch.export.export(model, (), inputs, **options)


def without_grad(model, inputs, **options):
    with torch.no_grad(), masks_without_vmap():
        return torch.export.export(model, (), inputs, **options)


def by_exporter(model, inputs):
    """By the exporter of transformers 5."""
    from transformers.exporters.exporter_dynamo import DynamoConfig, DynamoExporter
    return DynamoExporter().export(model, inputs, config=DynamoConfig(dynamic=False)).program


def save(program, path):
    """Writes the file, and reads it: some that torch writes it cannot load."""
    torch.export.save(program, path)
    torch.export.load(path)


def export(kind, form, path):
    """Writes the file and returns a record of how it was made."""
    model, inputs = prepared(kind)
    record = {"class": type(model).__name__, "inputs": list(inputs),
              "parameters": sum(p.numel() for p in model.parameters())}
    ways = {"": ("plain", "no-grad", "exporter"), "no-grad": ("no-grad",), "dynamic": ("dynamic",),
            "decomposed": ("decomposed",), "dynamic-cache": ("dynamic-cache",), "static-cache": ("static-cache",)}[form]
    problems = []
    for way in ways:
        try:
            save(EXPORTERS[way](model, dict(inputs)), path)
            return {**record, "export": way}
        except Exception as error:
            path.unlink(missing_ok=True)
            problems.append(f"{way}: {type(error).__name__}: {str(error).strip()[:300]}")
    return {**record, "error": " | ".join(problems)}


def dynamic(model, inputs):
    batch = torch.export.Dim("batch", min=2, max=16)
    length = torch.export.Dim("length", min=2, max=64)
    text = ("input_ids", "attention_mask", "decoder_input_ids")
    shapes = {name: {0: batch, 1: length} if name in text else {0: batch} for name in inputs}
    return without_grad(model, inputs, dynamic_shapes=shapes)


def decomposed(model, inputs):
    return without_grad(model, inputs).run_decompositions()


def with_dynamic_cache(model, inputs):
    """A step of decoding: the cache is an input, and the longer cache an output."""
    from transformers.integrations import executorch
    model.config.use_cache = True
    with torch.no_grad():
        cache = model(input_ids=inputs["input_ids"], use_cache=True).past_key_values
    if hasattr(executorch, "register_dynamic_cache_export_support"):
        executorch.register_dynamic_cache_export_support()
    step = {"input_ids": inputs["input_ids"][:, -1:], "past_key_values": cache, "use_cache": True}
    return without_grad(model, step)


def with_static_cache(model, inputs):
    """Decoding on a cache that the program holds in its buffers."""
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM
    model.config.use_cache = True
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=32,
        cache_config={"batch_size": 1, "max_cache_len": 32, "device": "cpu"})
    keywords = set(inspect.signature(TorchExportableModuleForDecoderOnlyLM).parameters)
    options = {"batch_size": 1, "max_cache_len": 32} if "batch_size" in keywords else {}
    module = TorchExportableModuleForDecoderOnlyLM(model, **options)
    return module.export(input_ids=torch.tensor([[5]]), cache_position=torch.tensor([0]))


EXPORTERS = {"plain": plain, "no-grad": without_grad, "exporter": by_exporter, "dynamic": dynamic, "decomposed": decomposed,
             "dynamic-cache": with_dynamic_cache, "static-cache": with_static_cache}


def file_name(case):
    return case.replace("/", "+")


def warm_up():
    """Imports what an export needs."""
    import io
    file = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),)), file)
    file.seek(0)
    torch.export.load(file).module()
    import transformers.integrations.executorch  # noqa: F401
    import transformers.modeling_utils  # noqa: F401


def make(case, folder):
    """Writes the file of a case, if torch can export it, and returns a record of it."""
    kind, _, form = case.partition("/")
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    try:
        record = export(kind, form, pathlib.Path(folder) / f"{file_name(case)}.pt2")
    except Exception as error:
        record = {"error": f"{type(error).__name__}: {str(error).strip()[:2000]}"}
    return {"case": case, "transformers": transformers.__version__, "torch": torch.__version__, **record}


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        print(json.dumps(make(wanted, sys.argv[1])), flush=True)
