# SPDX-License-Identifier: Apache-2.0
"""Arguments of the Python package that make no sense are errors that name the argument."""

import math
import pathlib
import pickle

import pytest
import torch

import refx

QUICK = {"threads": 1, "seconds": 0.1}


@pytest.fixture()
def model():
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)).eval()
    made = refx.export(layers, (torch.randn(2, 8),))
    assert made.apply("store-linear-transposed")
    return made


def works(model):
    """The calls that run the model, by name."""
    return {"verify": model.verify, "bench": model.bench, "tune": model.tune,
            "sensitivity": lambda **given: model.sensitivity("store-linear-int8", **given)}


@pytest.mark.parametrize("work", ["verify", "bench", "tune", "sensitivity"])
@pytest.mark.parametrize("given, message", [
    ({"threads": 100000}, "threads must be from 0 to 1024, not 100000"),
    ({"threads": 1025}, "threads must be from 0 to 1024, not 1025"),
    ({"threads": -1}, "threads must be from 0 to 1024, not -1"),
    ({"steps": -2}, "steps must be 0 or more, not -2"),
    ({"batch": -1}, "batch size must be 1 or more, not -1"),
])
def test_counts_out_of_range(model, work, given, message):
    threads = torch.get_num_threads()
    with pytest.raises(refx.Error, match=message):
        works(model)[work](**given)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1, 0])
def test_seconds_are_finite_and_positive(model, seconds):
    for work in (model.bench, model.tune, model.report):
        with pytest.raises(refx.Error, match="seconds must be a finite number greater than 0, not"):
            work(seconds=seconds)


@pytest.mark.parametrize("rounds", [0, -1])
def test_bench_takes_one_round_or_more(model, rounds):
    with pytest.raises(refx.Error, match=f"rounds must be 1 or more, not {rounds}"):
        model.bench(rounds=rounds, **QUICK)
    assert len(model.bench(rounds=1, **QUICK).contest.rounds) >= 1


@pytest.mark.parametrize("tolerance", [math.nan, math.inf, -1.0])
def test_a_tolerance_is_finite_and_not_negative(model, tolerance):
    for work in (model.bisect, lambda value: model.verify(tolerance=value)):
        with pytest.raises(refx.Error, match="the tolerance must be a finite number greater than 0, such as 1e-3, not"):
            work(tolerance)


def test_another_model_is_a_model(model):
    expected = r"against takes a refx.Model, such as refx.load\(path\), not "
    for work in (model.verify, model.bench):
        with pytest.raises(TypeError, match=expected + r"'x\.pt2'"):
            work(against="x.pt2")
        with pytest.raises(TypeError, match=expected + "a Linear"):
            work(against=torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"other takes a refx.Model, such as refx.load\(path\), not 'x\.pt2'"):
        model.diff("x.pt2")


def test_patterns_are_strings(model):
    for wrong in (3, [3], ["0", None]):
        for work in (model.apply, model.sites, model.refusals, model.tune, model.sensitivity):
            with pytest.raises(TypeError, match="site takes a string or a list of strings, not "):
                work("store-linear-int8", site=wrong)
            with pytest.raises(TypeError, match="exclude takes a string or a list of strings, not "):
                work("store-linear-int8", exclude=wrong)
    assert model.sites("store-linear-int8", site=(name for name in ["0"])) == model.sites("store-linear-int8", site="0")


def test_tune_takes_paths_and_a_function(model):
    with pytest.raises(TypeError, match="resume takes the path of a file of trials, not True"):
        model.tune(resume=True)
    with pytest.raises(TypeError, match="trials takes the path of the file of trials to write, not 1"):
        model.tune(trials=1)
    with pytest.raises(TypeError, match=r"accept takes a function .* returns True, False or a score, not 'x \{\}'"):
        model.tune(accept="x {}")


@pytest.mark.parametrize("accept_min", [None, 0.5])
def test_an_acceptance_test_returns_something(model, accept_min):
    with pytest.raises(refx.Error, match="^accept returned None: it must return True, False or a score$"):
        model.tune("store-linear-int8", **QUICK, prefer="size", accept=lambda form: None, accept_min=accept_min)
    assert {step.transformation for step in model.log()} == {"store-linear-transposed"}


def test_reverse_and_apply_say_what_they_take(model):
    with pytest.raises(refx.Error, match="^1.5 selects no steps: give a step or its id, the name of a transformation or "
                                         "a pattern$"):
        model.reverse(1.5)
    for nothing in ((), ([],)):
        with pytest.raises(refx.Error, match='^apply takes one or more transformations; "all" means every one'):
            model.apply(*nothing)
    assert not model.reverse(refx.fx.StoreLinearTransposed).log()


def test_types_have_their_public_names(model):
    for name in refx.__all__:
        value = getattr(refx, name)
        if isinstance(value, type):
            assert repr(value) == f"<class 'refx.{name}'>"
    refusal = refx.Refusal("merge-linears", "{a,b}", "custom", "no", ("a",))
    for value in (model.log()[0], refusal):
        assert pickle.loads(pickle.dumps(value)) == value


def test_former_names_of_classes_are_not_listed():
    old = {"LinearWrittenOut", "SiluWrittenOut"}
    assert not old & set(dir(refx.fx)) and {"FuseSilu", "MergeLinears", "explain"} <= set(dir(refx.fx))
    assert refx.fx.SiluWrittenOut is refx.fx.FuseSilu


def test_reasons_do_not_name_commands_of_the_program():
    table = pathlib.Path(__file__).parents[3] / "include/refx/reasons.def"
    assert "`refx " not in table.read_text()
