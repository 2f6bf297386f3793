# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs in containers that only Python has, with torch's own module as the judge."""

import collections
import dataclasses
import subprocess
import sys

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import refx
from conftest import PROGRAM


class Cache:
    """Like those of transformers: an object that the model reads and extends."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values


NAMES = ["keys", "values"]


def parts_of(cache):
    return [cache.keys, cache.values]


pytree.register_pytree_node(
    Cache, lambda cache: (parts_of(cache), NAMES), lambda parts, _: Cache(*parts),
    serialized_type_name="test_containers.Cache",
    flatten_with_keys_fn=lambda cache: (list(zip(map(pytree.MappingKey, NAMES), parts_of(cache))), NAMES))


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor
    third: torch.Tensor | None = None


torch.export.register_dataclass(Pair, serialized_type_name="test_containers.Pair")

Point = collections.namedtuple("Point", ["x", "y"])
pytree._register_namedtuple(Point, serialized_type_name="test_containers.Point")


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, cache=None, pair=None, point=None):
        keys = [torch.cat([past, self.key(x)], 1) for past in cache.keys]
        values = [torch.cat([past, self.value(x)], 1) for past in cache.values]
        scores = self.query(x) @ keys[0].transpose(1, 2)
        y = scores.softmax(-1) @ values[1] * pair.first + pair.second / point.y
        return {"y": Pair(y, y + 1), "cache": Cache(keys, values), "point": Point(point.x + 1, [y])}


def inputs(seed=0):
    torch.manual_seed(seed)
    past = [[torch.randn(2, 3, 8) for _ in range(2)] for _ in range(2)]
    return {"x": torch.randn(2, 1, 8), "cache": Cache(*past), "pair": Pair(torch.randn(8), torch.randn(8)),
            "point": Point(torch.randn(8), torch.ones(8))}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("containers") / "decoder.pt2"
    torch.manual_seed(1)
    with torch.no_grad():
        torch.export.save(torch.export.export(Decoder().eval(), (), inputs()), path)
    return path


def check_same(got, expected):
    leaves, spec = pytree.tree_flatten(got)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    torch.testing.assert_close(leaves, expected_leaves)


def test_containers_go_in_and_come_out(program):
    model = refx.load(program)
    assert model.apply("all")
    module = torch.export.load(program).module()
    for seed in range(2):
        got = model(**inputs(seed))
        check_same(got, module(**inputs(seed)))
        assert type(got["cache"]) is Cache and type(got["y"]) is Pair and type(got["point"]) is Point
    assert model.verify(inputs=((), inputs(2)))


def test_arguments_by_name_have_no_order(program):
    model = refx.load(program)
    backwards = dict(reversed(inputs().items()))
    check_same(model(**backwards), model(**inputs()))


def test_parts_may_be_given_plainly(program):
    plain = dict(inputs(), pair=(inputs()["pair"].first, inputs()["pair"].second), point=list(inputs()["point"]))
    model = refx.load(program)
    check_same(model(**plain), model(**inputs()))


def test_a_container_of_other_parts_is_refused(program):
    short = inputs()
    short["cache"].keys.pop()
    with pytest.raises(refx.Error, match=r"input 'cache\[0\]' should be a list of 2, not a list of 1"):
        refx.load(program)(**short)


def test_a_class_that_is_not_registered_is_refused(program):
    class Other:
        pass

    with pytest.raises(refx.Error, match="an input is a Other; .* registered with torch.utils._pytree"):
        refx.load(program)(**dict(inputs(), cache=Other()))


def test_what_is_not_registered_comes_as_a_tuple(program, tmp_path):
    """In a process that did not import the library of the class, where it is given plainly, too."""
    plain = {name: pytree.tree_leaves(value) for name, value in inputs().items()}
    plain.update(x=inputs()["x"], cache=parts_of(inputs()["cache"]))
    torch.save(plain, tmp_path / "inputs.pt")
    code = ("import sys, torch, refx; out = refx.load(sys.argv[1])(**torch.load(sys.argv[2])); "
            "assert [type(out[k]) for k in ('y', 'cache', 'point')] == [tuple] * 3; torch.save(out, sys.argv[3])")
    subprocess.run([sys.executable, "-c", code, program, tmp_path / "inputs.pt", tmp_path / "out.pt"], check=True)
    expected = refx.load(program)(**inputs())
    torch.testing.assert_close(pytree.tree_leaves(torch.load(tmp_path / "out.pt")), pytree.tree_leaves(expected))


def test_a_model_output_of_transformers_comes_back_as_one(tmp_path):
    """Also if the module that defines it was not imported; without transformers, an error tells the caller."""
    outputs = pytest.importorskip("transformers.modeling_outputs")

    class Net(nn.Linear):
        def forward(self, x):
            return outputs.BaseModelOutput(last_hidden_state=super().forward(x))

    torch.export.save(torch.export.export(Net(4, 4), (torch.ones(2, 4),)), tmp_path / "net.pt2")
    code = ("import sys, warnings, torch, refx; warnings.simplefilter('error'); model = refx.load(sys.argv[1]); "
            "exec(sys.argv[2]); print(type(model(torch.ones(2, 4))).__name__)")

    def run(first):
        return subprocess.run([sys.executable, "-c", code, tmp_path / "net.pt2", first], capture_output=True, text=True)

    assert run("import transformers").stdout == "BaseModelOutput\n"
    assert "Import transformers.modeling_outputs first" in run("").stderr
    assert run("warnings.simplefilter('ignore')").stdout == "tuple\n"


@pytest.mark.skipif(not PROGRAM, reason="REFX_PROGRAM is not set")
def test_the_program_reads_sample_inputs_without_their_classes(program, tmp_path):
    """Objects, named tuples and dataclasses by what their pickles hold."""
    out = tmp_path / "out.pt"
    subprocess.run([PROGRAM, "run", program, "-o", out], check=True, capture_output=True)
    got = torch.load(out, weights_only=True)
    torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(torch.export.load(program).module()(**inputs())))


def test_a_cache_of_transformers(tmp_path):
    """The sample inputs are those of the program's own call, also in the program."""
    transformers = pytest.importorskip("transformers", minversion="5.0")
    executorch = pytest.importorskip("transformers.integrations.executorch")
    register = getattr(executorch, "register_dynamic_cache_export_support", lambda: None)
    register()
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64)
    torch.manual_seed(0)
    llama = transformers.LlamaForCausalLM(config).eval()

    def call():
        cache = transformers.DynamicCache(config=config)
        with torch.no_grad():
            llama(torch.arange(5)[None], past_key_values=cache, use_cache=True)
        return {"input_ids": torch.tensor([[7]]), "past_key_values": cache, "use_cache": True}

    path = tmp_path / "llama.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(llama, (), call(), strict=False), path)
    model = refx.load(path)
    assert model.apply("all")
    expected = torch.export.load(path).module()(**call())
    got = model(**dict(reversed(call().items())))
    check_same(got, expected)
    assert type(got) is type(expected) and type(got.past_key_values) is transformers.DynamicCache
    model.save(tmp_path / "fast.pt2")
    check_same(torch.export.load(tmp_path / "fast.pt2").module()(**call()), expected)
    if PROGRAM:
        out = tmp_path / "out.pt"
        subprocess.run([PROGRAM, "run", path, "-o", out], check=True, capture_output=True)
        torch.testing.assert_close(pytree.tree_leaves(torch.load(out, weights_only=True)), pytree.tree_leaves(expected))
