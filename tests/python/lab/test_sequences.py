# SPDX-License-Identifier: Apache-2.0
"""Models that keep state: it belongs to a run, and sequences of calls are run, judged and timed."""

import copy
import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import refx

WIDTH, LENGTH, VOCABULARY = 16, 48, 29


class Decoder(nn.Module):
    """One layer with a cache in buffers, written in place as transformers' static cache is.

    ``wrong`` plants what a single call, the prefill, cannot show.
    """

    def __init__(self, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH + 2, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("keys", torch.zeros(1, LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(1, LENGTH, WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, input_ids, cache_position):
        x = self.tokens(input_ids) + self.places(self.where(cache_position))
        slot = cache_position
        if self.wrong == "cache index off by one":  # where the prefill has written, it does not show
            slot = (cache_position - (cache_position >= 4).long()).clamp(min=0)
        self.keys.index_copy_(1, slot, self.k(x))
        values = self.v(x)
        if self.wrong == "stale entry":  # only the prefill's entries are written
            values = torch.where((cache_position >= 4)[:, None], self.values.index_select(1, slot), values)
        self.values.index_copy_(1, slot, values)
        if self.wrong != "counter not advanced":
            self.seen.add_(input_ids.shape[1])
        slots = torch.arange(LENGTH)
        last = cache_position[:, None]
        if self.wrong == "mask shifted":
            last = torch.where(last >= 4, last - 1, last)
        scores = self.q(x) @ self.keys.transpose(1, 2) / math.sqrt(WIDTH)
        scores = scores.masked_fill(slots[None] > last, -torch.inf)
        return self.head(scores.softmax(-1) @ self.values)

    def where(self, cache_position):
        return cache_position


class Counting(Decoder):
    """Its positions come from a counter that it keeps itself."""

    def where(self, cache_position):
        return torch.arange(cache_position.shape[0]) + self.seen

    def forward(self, input_ids):
        return super().forward(input_ids, torch.arange(input_ids.shape[1]) + self.seen)


def export(module, dynamic=True, length=4):
    """Of the same weights, whichever is wrong."""
    torch.manual_seed(0)
    fresh = type(module)(module.wrong).eval()
    ids = torch.randint(VOCABULARY, (1, length))
    inputs = (ids,) if isinstance(module, Counting) else (ids, torch.arange(length))
    size = torch.export.Dim("length", min=1, max=LENGTH)
    shapes = ({1: size}, {0: size})[:len(inputs)] if dynamic else None
    with torch.no_grad():
        return torch.export.export(fresh, inputs, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def program():
    return export(Decoder())


def fresh(program):
    """As torch runs it. A module of the program itself would write into the program's buffers."""
    return copy.deepcopy(program).module()


def calls(steps=32, seed=1):
    """A prefill of four tokens and single ones after it."""
    torch.manual_seed(seed)
    ids = torch.randint(VOCABULARY, (1, 4 + steps))
    first = [(ids[:, :4], torch.arange(4))]
    return first + [(ids[:, i:i + 1], torch.tensor([i])) for i in range(4, 4 + steps)]


# ---- state belongs to runs ---------------------------------------------------------------------


def test_running_leaves_the_file_and_the_model_alone(program, tmp_path):
    before, after = tmp_path / "before.pt2", tmp_path / "after.pt2"
    torch.export.save(program, before)
    model = refx.load(before)
    model.apply("merge-linears")
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for inputs in calls():
        model(*inputs)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    model.reverse()
    model.save(after)
    assert before.read_bytes() == after.read_bytes()


def test_decoding_is_torchs_bit_for_bit_and_again_after_a_reset(program):
    model = refx.from_exported(program)
    for seed in (1, 2):
        module = fresh(program)
        for inputs in calls(seed=seed):
            assert torch.equal(model(*inputs), module(*inputs))
        state = model.run_state()
        assert set(state) == {"keys", "values", "seen"}
        assert all(torch.equal(state[name], buffer) for name, buffer in module.named_buffers() if name in state)
        model.reset_state()
    assert not program.state_dict["keys"].any()


def test_a_rewritten_decoder_decodes_the_same_up_to_rounding(program):
    model = refx.from_exported(program)
    assert model.apply("all")
    module = fresh(program)
    for inputs in calls():
        torch.testing.assert_close(model(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)


def test_a_copy_and_a_rewrite_start_anew(program):
    model = refx.from_exported(program)
    first = calls()[0]
    model(*first)
    other = model.copy()
    assert model.run_state()["seen"] == 4 and other.run_state()["seen"] == 0
    other.run_state()["seen"].fill_(7)
    other(*first)
    assert other.run_state()["seen"] == 11 and model.run_state()["seen"] == 4
    model.apply("merge-linears")
    assert model.run_state()["seen"] == 0


def test_declared_mutations_are_kept_by_the_run_too(program):
    decomposed = program.run_decompositions({})
    assert decomposed.graph_signature.buffers_to_mutate
    model = refx.from_exported(decomposed)
    module = fresh(decomposed)
    for inputs in calls():
        assert torch.equal(model(*inputs), module(*inputs))
    assert model.run_state()["seen"] == 36 and not model.state_dict()["keys"].any()
    assert model.verify(steps=3)


# ---- sequences ---------------------------------------------------------------------------------

ERRORS = ("cache index off by one", "mask shifted", "stale entry", "counter not advanced")


@pytest.mark.parametrize("wrong", ("", *ERRORS))
@pytest.mark.parametrize("kind", (Decoder, Counting))
def test_verify_judges_every_step(kind, wrong):
    original, model = (refx.from_exported(export(kind(w))) for w in ("", wrong))
    result = model.verify(original, steps=8)
    if not wrong:
        assert result.verdict == "pass", str(result)
    else:
        assert result.verdict == "fail", str(result)
    assert result.sets[0].calls == 9 and not any("single call" in note for note in result.notes)


@pytest.mark.parametrize("wrong", ("cache index off by one", "mask shifted", "stale entry"))
def test_a_single_call_does_not_show_them(wrong):
    """Only the steps show them; the report says that there was one call."""
    original, model = (refx.from_exported(export(Decoder(w))) for w in ("", wrong))
    result = model.verify(original, inputs=calls()[0])
    assert result.verdict == "pass"
    assert any("keeps state" in note for note in result.notes)


def test_reports_the_worst_call(program):
    original, model = (refx.from_exported(export(Decoder(w))) for w in ("", "mask shifted"))
    result = model.verify(original, steps=4)
    [output] = [output for output in result.outputs if output.path == "output"]
    assert output.call > 1 and f"call {output.call}: output" in str(result)


def test_a_list_of_calls(program):
    model = refx.from_exported(program)
    model.apply("merge-linears")
    sequence = calls(5)
    assert model.verify(inputs=sequence).sets[0].calls == 6
    with pytest.raises(refx.Error, match="2: input .cache_position. is missing"):
        model.verify(inputs=[sequence[0], (sequence[1][0],)])
    with pytest.raises(refx.Error, match="not both"):
        model.verify(inputs=sequence, steps=2)


def test_steps_that_the_cache_has_no_room_for(program):
    with pytest.raises(refx.Error, match="call 46 of 51"):
        refx.from_exported(program).verify(steps=50)


def test_static_shapes_advance_by_their_length():
    model = refx.from_exported(export(Decoder(), dynamic=False, length=3))
    model.apply("merge-linears")
    assert model.verify(steps=4).sets[0].calls == 5


def test_lossy_steps_are_measured_over_the_sequence(program):
    model = refx.from_exported(program)
    one = model.sensitivity("store-linear-int8", inputs=calls()[0]).error
    many = model.sensitivity("store-linear-int8", inputs=calls()).error
    assert many >= one > 0


# ---- the program -------------------------------------------------------------------------------


@pytest.fixture
def decoder(desk, program):
    path = desk.work / "decoder.pt2"
    torch.export.save(program, path)
    return path.name


def test_run_decodes(desk, decoder, program):
    result = json.loads(desk("run", decoder, "--steps", 5, "-o", "out.pt", "--state", "state.pt", "--json").out)
    assert len(result["calls"]) == 6 and result["outputs"] == result["calls"][-1]["outputs"]
    assert [call["outputs"][0]["type"] for call in result["calls"]] == ["f32[1, 4, 29]"] + 5 * ["f32[1, 1, 29]"]
    out, state = (torch.load(desk.work / name, weights_only=True) for name in ("out.pt", "state.pt"))
    assert len(out) == 6 and state["seen"] == 9
    assert "call 6: output" in desk("run", decoder, "--steps", 5).out
    torch.save(calls(5), desk.work / "calls.pt")
    desk("run", decoder, "--inputs", "calls.pt", "-o", "given.pt")
    module = fresh(program)
    for inputs, output in zip(calls(5), torch.load(desk.work / "given.pt", weights_only=True), strict=True):
        assert torch.equal(module(*inputs), output)


def test_bench_tells_tokens_per_second(desk, decoder):
    desk("apply", decoder, "merge-linears", "-o", "fast.pt2")
    how = ("--steps", 4, "--seconds", "0.1", "--threads", 1)
    result = json.loads(desk("bench", "fast.pt2", *how, "--json").out)
    assert (result["calls"], result["tokens"]) == (4, 4)
    rate = result["tokens_per_second"]["before"]
    assert math.isclose(rate, 4 / result["contest"]["before"]["median"], rel_tol=1e-6)
    assert " tokens/s before, " in desk("bench", "fast.pt2", *how).out
    assert "keeps state" in desk("bench", "fast.pt2", *how[2:]).out
    before = desk.read("fast.pt2")
    assert "verify" not in desk("verify", "fast.pt2", "--steps", 4).err
    assert desk.read("fast.pt2") == before


def test_tune_on_steps(desk, decoder):
    desk("tune", decoder, "merge-linears", "-o", "best.pt2", "--steps", 3, "--seconds", "0.1", "--threads", 1)
    assert desk("verify", "best.pt2", "--steps", 3).out.endswith("pass\n")


def test_bisect_on_steps(desk, decoder):
    desk("apply", decoder, "merge-linears", "-o", "fast.pt2")
    desk("bisect", "fast.pt2", "--tolerance", "1e-3", "--steps", 3, code=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)
        self.register_buffer("hidden", torch.zeros(2, 8))

    def forward(self, x):
        self.hidden.copy_(torch.tanh(self.cell(x) + self.hidden))
        return F.relu(self.hidden)


def test_a_model_without_positions_takes_steps_too():
    model = refx.export(Recurrent().eval(), (torch.randn(2, 8),))
    result = model.verify(steps=6)
    assert result and result.sets[0].calls == 7
    assert model.bench(steps=6, seconds=0.05, threads=1).tokens == 0
