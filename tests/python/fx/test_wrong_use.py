# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: the message says what is right."""

import copy
import gc
import pathlib
import pickle
import warnings

import pytest
import torch

import refx
import refx.fx
from kit import Parallel, Snapshot, trace
from refx.fx import FuseBiasInLinear, MergeLinears, Transformation, compose, explain

X = torch.randn(2, 4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", [Parallel(), None, torch.export.export(Parallel(), (X,)), refx.export(Parallel(), (X,))],
                         ids=lambda given: type(given).__name__)
def test_not_a_GraphModule(given, reverse):
    says = f"MergeLinears takes a torch.fx.GraphModule, not a {type(given).__name__}; torch.fx.symbolic_trace"
    if isinstance(given, refx.Model):
        says = r"MergeLinears takes a torch.fx.GraphModule, not a refx.Model; model.apply\(...\) rewrites it"
    with pytest.raises(TypeError, match=says):
        MergeLinears()(given, reverse=reverse)


class Forgets(Transformation):
    def transform(self, graph_module):
        MergeLinears()(graph_module)


def test_a_pass_that_returns_none_is_undone():
    gm = trace(Parallel())
    before = Snapshot(gm)
    with pytest.raises(TypeError, match="Forgets.transform has to return the GraphModule, not a NoneType"):
        Forgets()(gm)
    before.assert_equals(Snapshot(gm))
    assert not refx.fx.log(gm)


@pytest.mark.parametrize("part", [MergeLinears, "merge-linears", [MergeLinears()]], ids=str)
def test_what_is_composed(part):
    with pytest.raises(TypeError, match="compose takes transformations, such as MergeLinears"):
        compose(FuseBiasInLinear(), part)


def test_what_is_explained():
    gm = trace(Parallel())
    assert explain(MergeLinears, gm) == explain(MergeLinears(), gm)
    with pytest.raises(TypeError, match="MergeLinears takes a torch.fx.GraphModule, not a Parallel"):
        explain(MergeLinears(), Parallel())
    with pytest.raises(refx.Error, match="str does not say where it applies: explain.MergeLinears.., graph_module"):
        explain("merge-linears", gm)


def test_not_an_exported_program():
    with pytest.raises(TypeError, match="takes an ExportedProgram, not a Parallel; refx.export"):
        refx.from_exported(Parallel())


def test_all_of_them_but_the_lossy_ones():
    model, by_name = refx.export(Parallel(), (X,)), refx.export(Parallel(), (X,))
    steps = model.apply("all")
    assert {step.transformation for step in steps} >= {"merge-linears"}
    left_out = ("fuse-bias-in-linear", "store-linear-transposed")
    by_name.apply(*(name for name, _ in refx._core.transformations()
                    if refx._core.preserves_computation(name) and name not in left_out))
    assert model.graph == by_name.graph
    assert not any("int8" in site.transformation for site in model.sites("all"))


@pytest.mark.parametrize("verb", ["verify", "tune"])
def test_a_budget_below_zero(verb):
    with pytest.raises(refx.Error, match="the error budget must be a finite number greater than 0, such as 0.01, not -1"):
        getattr(refx.export(Parallel(), (X,)), verb)(budget=-1)


def test_patterns_that_match_no_site():
    model = refx.export(Parallel(), (X,))
    before = model.graph
    with pytest.raises(refx.Error, match=r"site='nowhere\.\*' matches no site; `Model\.sites\(\)` lists the sites"):
        model.apply("merge-linears", site="nowhere.*")
    with pytest.raises(refx.Error, match=r"matches no site; did you mean '\{q,k,v\}'"):
        model.apply("merge-linears", site="{q,k,w}")
    for what in (model.apply, model.sites, model.refusals, model.sensitivity, model.tune):
        with pytest.raises(refx.Error, match=r"exclude='nowhere' matches nothing; `Model\.sites\(\)` lists the sites"):
            what("merge-linears", exclude="nowhere")
    assert model.graph == before and not model.log()
    model.apply("merge-linears")
    assert model.apply("merge-linears", site="*") == []  # those that are rewritten count


@pytest.mark.parametrize("wrong", [copy.deepcopy, pickle.dumps])
def test_a_Model_is_not_pickled(wrong):
    with pytest.raises(TypeError, match=r"a refx.Model is not pickled or deep-copied: copy\(\) makes another"):
        wrong(refx.export(Parallel(), (X,)))


def test_the_file_behind_a_model_is_released_with_the_last_model():
    model = refx.export(Parallel(), (X,))
    folder, other = pathlib.Path(model._folder.name), model.copy()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del model
        gc.collect()
        assert folder.exists() and other(X).shape == (2, 4)
        del other
        gc.collect()
    assert not folder.exists() and not [w for w in said if w.category is ResourceWarning]


def test_a_missing_base_is_an_error_even_if_nothing_is_detached():
    with pytest.raises(refx.Error, match="nowhere.pt2"):
        refx.export(Parallel(), (X,)).attach("nowhere.pt2")
