"""NomicBert with experts (v2-moe), which transformers does not have: its config.json and its tensors, as on the hub."""

from collections.abc import Mapping
from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "nomic_bert",
    "vocab_size": 60,
    "n_embd": 32,
    "n_head": 4,
    "n_inner": 48,
    "n_layer": 4,
    "n_positions": 40,
    "type_vocab_size": 1,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu",
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "rotary_emb_base": 10000.0,
    "rotary_emb_fraction": 1.0,
    "moe_every_n_layers": 2,
    "num_experts": 5,
    "moe_top_k": 2,
    "moe_normalize_expert_weights": False,
    "num_shared_experts": 0,
    "expert_choice_router": False,
    "ffn_div": 1,
}
"""In a shape that takes milliseconds."""


def expert_shapes(config: Mapping[str, Any] = CONFIG) -> dict[str, tuple[int, ...]]:
    """Tensors by their names, in the order of the layers; every second layer has experts."""
    hidden, inner, experts = (int(config[key]) for key in ("n_embd", "n_inner", "num_experts"))
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), hidden),
        "embeddings.token_type_embeddings.weight": (1, hidden),
        "emb_ln.weight": (hidden,),
        "emb_ln.bias": (hidden,),
    }
    for number in range(int(config["n_layer"])):
        part = f"encoder.layers.{number}."
        linear = {"attn.Wqkv": (3 * hidden, hidden), "attn.out_proj": (hidden, hidden)}
        if number % 2:
            shapes[f"{part}mlp.router.layer.weight"] = (experts, hidden)
            shapes[f"{part}mlp.experts.mlp.w1"] = (experts * inner, hidden)
            shapes[f"{part}mlp.experts.mlp.w2"] = (experts * inner, hidden)
            shapes[f"{part}mlp.experts.bias"] = (hidden,)
        else:
            linear |= {"mlp.fc1": (inner, hidden), "mlp.fc2": (hidden, inner)}
        for name, shape in linear.items():
            shapes |= {f"{part}{name}.weight": shape, f"{part}{name}.bias": shape[:1]}
        for norm in ("norm1", "norm2"):
            shapes |= {f"{part}{norm}.weight": (hidden,), f"{part}{norm}.bias": (hidden,)}
    return shapes
