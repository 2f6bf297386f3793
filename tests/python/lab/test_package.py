# SPDX-License-Identifier: Apache-2.0
"""model.bench, tune, bisect and report of the Python package."""

import json
import math
import subprocess
import sys
import threading
from xml.etree import ElementTree

import pytest
import torch

import refx
from conftest import mark_stable


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 3.0
        return scores.softmax(-1) @ self.value(x)


@pytest.fixture()
def model():
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=32)
    layers = torch.nn.Sequential(Attention(), Attention()).eval()
    return refx.export(layers, (torch.randn(2, 4, 16),), dynamic_shapes=({0: batch},))


QUICK = {"threads": 1, "seconds": 0.1}


def test_sites_are_found_without_torchs_python_kernels(model, tmp_path):
    """refx infers the types itself: torch would import its compiler for that, which takes seconds."""
    model.save(tmp_path / "model.pt2")
    code = ("import sys, refx; model = refx.load(sys.argv[1]); before = set(sys.modules)\n"
            "assert model.sites('store-linear-int8'); model.sites()\n"
            "print(sorted(name for name in set(sys.modules) - before if name.startswith('torch')))")
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model.pt2"], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_bench_against_the_original(model):
    model.apply("merge-linears")
    seen = []
    result = model.bench(**QUICK, per_step=True, progress=lambda *now: seen.append(now))
    assert result.speed in ("faster", "slower", "no difference", "unstable")
    assert result.low <= result.ratio <= result.high
    assert [step.site for step in result.steps] == ["0.{query,key,value}", "1.{query,key,value}"]
    assert result.threads == 1
    assert "inference mode" in str(result)
    assert seen[0][:2] == (0, 300) and seen[-1][0] <= 300


def test_verify_holds_lossy_steps_to_a_budget(model):
    model.apply("store-linear-int8")
    measured = model.verify(per_step=True, sort="error")
    assert not measured and measured.verdict == "not judged" and measured.reason == "no budget given"
    assert "not judged: no budget given" in measured.text and "pass" not in measured.text
    assert all(step.numerics == "approximate" and str(step).endswith("  approximate") for step in model.log())
    errors = [step.worst.l2 for step in measured.steps]
    assert errors and errors == sorted(errors, reverse=True)
    error = measured.lossy.error
    assert model.verify(budget=1.01 * error)
    assert not model.verify(budget=0.99 * error)


def test_sensitivity_is_a_table_in_the_order_of_the_model(model):
    before = model.log()
    seen = []
    tried = model.sensitivity("store-linear-int8", inputs=(torch.randn(2, 4, 16),), progress=lambda *now: seen.append(now))
    assert model.log() == before
    sites = [f"{i}.{name}" for i in "01" for name in ("query", "key", "value")]
    assert [row.site for row in tried] == sites and len(tried) == 6 and tried.runs == 9
    assert all(0 < row.error < 0.1 for row in tried) and not any(row.in_model for row in tried)
    assert list(tried) == list(tried.steps) and "worst" in str(tried) and seen[-1][:2] == (7, 8)
    assert tried.worst()[0].error == max(row.error for row in tried)
    model.apply("store-linear-int8")
    model.reverse("1.*")
    assert [row.error for row in model.sensitivity(seed=1)] != [row.error for row in tried][:3]
    assert [row.in_model for row in model.sensitivity(reversed=True)] == [True] * 3 + [False] * 3
    with pytest.raises(refx.Error, match="no lossy steps"):
        model.original().sensitivity()
    with pytest.raises(TypeError, match="takes no"):
        model._core.sensitivity([], nonsense=1)


def bars(svg):
    """Of a chart: name, length, whether it is filled, and its colour."""
    space = "{http://www.w3.org/2000/svg}"
    for group in ElementTree.fromstring(svg).iter(space + "g"):
        bar = group.find(space + "rect")
        color = bar.get("stroke") or bar.get("fill")
        yield group.find(space + "text").text, float(bar.get("width")), bar.get("fill") != "none", color


def test_sensitivity_draws_bars_that_need_nothing_else(model):
    model.apply("store-linear-int8", exclude="1.value*")
    result = model.sensitivity("store-linear-int8")
    drawn = list(bars(result._repr_html_()))
    assert [name for name, *_ in drawn] == [row.site for row in result]
    assert [filled for _, _, filled, _ in drawn] == [row.in_model for row in result] == [True] * 5 + [False]
    lengths, errors = [length for _, length, *_ in drawn], [math.log10(row.error) for row in result]
    assert sorted(range(6), key=lengths.__getitem__) == sorted(range(6), key=errors.__getitem__)
    low, high = min(lengths), max(lengths)
    scale = (high - low) / (max(errors) - min(errors))
    assert lengths == pytest.approx([low + scale * (e - min(errors)) for e in errors], abs=0.2)
    colors = [color for *_, color in drawn]
    assert colors.index(colors[lengths.index(high)]) == lengths.index(high) and len(set(colors)) == 2
    page = result.html()
    assert page.startswith("<!doctype html>") and "<svg" in page and "src=" not in page and "href=" not in page


def test_sensitivity_escapes_names_and_knows_errors_that_are_not_finite():
    row = {"id": 1, "transformation": "t", "built_on": [], "in_model": True, "sqnr": None, "bytes_before": 4,
           "bytes_after": 1}
    rows = [row | {"site": "<script>" * 9, "error": None}, row | {"site": "a & b", "error": 0.0},
            row | {"site": "c", "error": 2e-4}]
    result = refx.Sensitivity.of((json.dumps({"steps": rows, "error": None, "inputs": "", "threads": 1, "runs": 6}), "text"))
    drawn = list(bars(result._repr_html_()))
    assert "<script" not in result.html() and drawn[0][0].endswith("<script>") and drawn[1][0] == "a & b"
    assert drawn[0][1] > drawn[2][1] > drawn[1][1] == 0
    assert [step.site for step in result.worst(2)] == ["<script>" * 9, "c"]
    assert drawn[0][3] != drawn[1][3] == drawn[2][3]


def test_sensitivity_plots_with_matplotlib_or_says_what_is_missing(model, monkeypatch):
    result = model.sensitivity("store-linear-int8")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(refx.Error, match="pip install matplotlib"):
        result.plot()
    monkeypatch.undo()
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = result.plot()
    assert [bar.get_width() for bar in axes.patches] == [row.error for row in result]
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.site for row in result]
    assert result.plot(axes) is axes


def test_bench_takes_inputs_and_batches(model):
    x = torch.randn(3, 4, 16)
    assert "f32[3, 4, 16]" in model.bench(inputs=((x,), {}), **QUICK).inputs
    assert "f32[3, 4, 16]" in model.bench(inputs=(x,), **QUICK).inputs
    assert "f32[8, 4, 16]" in model.bench(batch=8, **QUICK).inputs
    with pytest.raises(refx.Error, match="range"):
        model.bench(batch=99, **QUICK)


def test_hints_name_python_arguments(model):
    with pytest.raises(refx.Error, match="^a CPU has no graphs to capture; choose a device: device='cuda'$"):
        model.bench(cuda_graph=True, **QUICK)
    with pytest.raises(refx.Error, match=r"^there is no transformation 'xyzzy'; help\(refx.fx\) lists them$"):
        model.apply("xyzzy")


def test_an_option_of_another_type_is_a_type_error(model):
    with pytest.raises(TypeError, match="threads: this cannot be 'many'"):
        model.bench(threads="many")


def test_a_bar_of_tqdm_can_show_progress(model):
    class Bar:
        total = n = None
        descriptions = []

        def set_description(self, text):
            self.descriptions.append(text)

    bar = Bar()
    model.bench(**QUICK, progress=bar)
    assert bar.n <= bar.total == 100
    assert "the whole model" in bar.descriptions


def test_progress_can_end_it(model):
    def stop(done, total, what):
        raise RuntimeError("enough")

    before = model.graph
    for work in (lambda: model.bench(**QUICK, progress=stop), lambda: model.tune(**QUICK, progress=stop)):
        with pytest.raises(RuntimeError, match="enough"):
            work()
    assert model.graph == before


def test_other_threads_run_meanwhile(model):
    ticks = 0
    over = threading.Event()

    def tick():
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    model.bench(threads=1, seconds=0.3)
    over.set()
    thread.join()
    assert ticks > 10


def test_tune_keeps_only_what_pays(model, tmp_path):
    x = torch.randn(2, 4, 16)
    expected = model(x)
    record = tmp_path / "trials.jsonl"
    result = model.tune("merge-linears", "change-true-div-to-mul-by-inverse", **QUICK, trials=record)
    assert result.changed == bool(model.log())
    assert len(result.classes) == 2
    torch.testing.assert_close(model(x), expected)
    mark_stable(record)
    trials = record.read_text().splitlines()
    again = model.copy().tune("merge-linears", "change-true-div-to-mul-by-inverse", **QUICK, resume=record)
    assert all(t.remembered for c in again.classes for t in c.trials)
    assert record.read_text().splitlines() == trials


def test_tune_within_a_budget(model):
    whole = model.copy().tune("store-linear-int8", **QUICK, prefer="size")
    assert whole.changed and whole.within.budget is None
    half = whole.within.error / 2
    result = model.tune("store-linear-int8", **QUICK, prefer="size", budget=half)
    assert result.changed and result.within.error <= half
    assert 0 < len(model.log()) < 6
    with pytest.raises(ValueError, match="speed"):
        model.tune("store-linear-int8", prefer="smallness")


def test_tune_with_an_acceptance_test(model):
    seen = []

    def score(form):
        seen.append(len(form.log()))
        return -seen[-1]

    sets = [(torch.randn(3, 4, 16),), (torch.randn(2, 4, 16),)]
    small = {**QUICK, "prefer": "size"}
    result = model.copy().tune("store-linear-int8", **small, accept=score, accept_min=-2, inputs=sets)
    assert max(seen) == 6
    assert result.within.score == -2 and result.within.budget is None
    judged = model.copy()
    assert judged.tune("store-linear-int8", **small, accept=lambda form: len(form.log()) <= 3).within.score is None
    assert 0 < len(judged.log()) <= 3
    within = result.within.error / 2
    both = model.copy().tune("store-linear-int8", **small, accept=score, accept_min=-2, budget=within, inputs=sets)
    assert both.within.budget == within and both.within.error <= within
    with pytest.raises(refx.Error, match="pass accept, which returns the score"):
        model.tune("store-linear-int8", **small, accept_min=0.5)
    with pytest.raises(refx.Error, match="returned the score 0.5: pass accept_min"):
        model.tune("store-linear-int8", **small, accept=lambda form: 0.5)
    with pytest.raises(ZeroDivisionError):
        model.tune("store-linear-int8", **small, accept=lambda form: 1 / 0)
    assert not model.log()


def test_bisect_with_a_function(model):
    model.apply("merge-linears", "change-true-div-to-mul-by-inverse", "fuse-bias-in-linear")
    guilty = {"merge-linears 1.{query,key,value}", "change-true-div-to-mul-by-inverse 0.div"}
    forms = []

    def check(form):
        forms.append(form)
        return not guilty <= {f"{s.transformation} {s.site}" for s in form.log()}

    result = model.bisect(check)
    assert [{f"{s.transformation} {s.site}" for s in steps} for steps in result.culprits] == [guilty]
    assert result and len(forms) == result.checks
    for step in result.repair:
        model.reverse(step, dependents="cascade")
    assert check(model)
    assert not model.bisect(check)


def test_bisect_with_a_tolerance(model):
    model.apply("merge-linears")
    assert not model.bisect(1e-3)
    assert model.bisect(0.0).current == "good"


def test_bisect_with_a_command(model):
    model.apply("merge-linears")
    result = model.bisect("test -s {} && exit 1")
    assert result.original == "bad" and not result
    with pytest.raises(refx.Error, match="was not found"):
        model.bisect("no-such-command {}")


def test_what_a_check_raises_comes_out(model):
    model.apply("merge-linears")

    def check(form):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.bisect(check)


def test_a_search_resumes(model, tmp_path):
    model.apply("merge-linears", "fuse-bias-in-linear")
    journal = tmp_path / "search.jsonl"
    calls = []

    def check(form):
        calls.append(len(form.log()))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return len(form.log()) < 3

    with pytest.raises(KeyboardInterrupt):
        model.bisect(check, journal=journal)
    result = model.bisect(check, journal=journal)
    assert result.remembered == 2
    assert not journal.exists()


def test_the_report_is_a_page_of_its_own(model, tmp_path):
    model.apply("merge-linears")
    path = tmp_path / "report.html"
    page = model.report(path, title="Mine", seconds=0.1)
    assert path.read_text(encoding="utf-8") == page
    assert page.lstrip().lower().startswith("<!doctype html>") and "Mine" in page
    inline = page._repr_html_()
    assert inline.startswith('<iframe srcdoc="') and "<script" not in inline
    assert len(model.report(verify=False, bench=False)) < len(page)


def test_lists_of_inputs_are_sets_as_with_the_program(model):
    model.apply("merge-linears")
    sets = [(torch.randn(n, 4, 16),) for n in (3, 2, 5)]
    assert len(model.verify(inputs=sets).sets) == 3
    assert len(model.verify(inputs=[[one] for one in sets]).sets) == 3
    assert len(model.verify(inputs=sets[0]).sets) == 1
    with pytest.raises(refx.Error, match=r"dimension 2 is 15, not 16"):
        model.verify(inputs=[sets[0], (torch.randn(2, 4, 15),)])


def test_lists_of_transformations_and_steps(model):
    applied = model.apply(["merge-linears", refx.fx.ChangeTrueDivToMulByInverse], "remove-no-ops")
    assert [step.id for step in applied] == [1, 2, 3, 4]
    model.reverse([1, applied[3]])
    assert [step.id for step in model.log()] == [2, 3]
    model.reverse(["merge-linears", "0.div", 2])
    assert not model.log()
    model.apply(refx.fx.compose(refx.fx.MergeLinears(), refx.fx.ChangeTrueDivToMulByInverse()))
    assert len(model.log()) == 4
    found = model.bisect(lambda form: not any("div" in step.site for step in form.log()))
    model.reverse(found.repair, dependents="cascade")
    assert {step.transformation for step in model.log()} == {"merge-linears"}
    model.reverse([])
    assert len(model.log()) == 2


def test_a_pass_in_python_is_refused_with_the_way(model):
    class Mine(refx.fx.Transformation):
        def transform(self, graph_module):
            return graph_module

    for own in (Mine, Mine()):
        with pytest.raises(refx.Error, match=r"Mine is Python code .* model\.to_exported\(\)\.module\(\)"):
            model.apply(own)
    with pytest.raises(refx.Error, match="3.5 is not a transformation: give a name"):
        model.apply(3.5)


def test_inputs_out_of_range_are_refused(model):
    with pytest.raises(refx.Error, match="dimension 0 is 33, at most 32"):
        model(torch.randn(33, 4, 16))
    with pytest.raises(refx.Error, match="dimension 1 is 5, not 4"):
        model(torch.randn(3, 5, 16))


def new_weights(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {key: torch.randn(tensor.shape, generator=generator) for key, tensor in model.original().state_dict().items()}


def test_load_state_dict_takes_the_keys_of_the_original(model, tmp_path):
    model.apply("merge-linears", "change-true-div-to-mul-by-inverse", "fuse-bias-in-linear")
    steps = [(step.transformation, step.site) for step in model.log()]
    weights, x = new_weights(model), torch.randn(3, 4, 16)
    plain = model.original().to_exported().module()
    plain.load_state_dict(weights)
    model.load_state_dict(weights)
    assert [(step.transformation, step.site) for step in model.log()] == steps
    torch.testing.assert_close(model(x), plain(x))
    assert model.verify()
    model.save(tmp_path / "new.pt2")
    for back in (refx.load(tmp_path / "new.pt2"), model):
        state = back.reverse().state_dict()
        assert state.keys() == weights.keys()
        assert all(torch.equal(state[key], weights[key]) for key in weights)
        assert torch.equal(back(x), plain(x))


def test_an_empty_choice_of_sites_is_an_error(model):
    for what in (model.apply, model.sites, model.tune, model.sensitivity):
        with pytest.raises(refx.Error, match="site=\\[\\] chooses no site"):
            what("store-linear-int8", site=[])
    assert model.log() == [] and len(model.sites("merge-linears", site=None)) == 2


def test_a_linear_of_one_input_is_not_computed_in_int8(tmp_path):
    small = refx.export(torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Linear(8, 4)), (torch.randn(3, 1),))
    assert [site.name for site in small.sites("quantize-linear-int8")] == ["1"]
    (refusal,) = small.refusals("quantize-linear-int8")
    assert refusal.site == "0" and refusal.code == "condition-not-met" and refusal.nodes
    assert refusal.to_dict()["reason"] == refusal.reason and refusal.reason in str(refusal)


def test_to_moves_the_model_and_its_history(model):
    model.apply("merge-linears", "change-true-div-to-mul-by-inverse")
    steps = [(step.transformation, step.site) for step in model.log()]
    assert model.copy().to("cpu").state_dict().keys() == model.state_dict().keys()
    moved = model.to("meta")
    assert moved is model
    assert [(step.transformation, step.site) for step in model.log()] == steps
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    assert all(tensor.is_meta for tensor in model.reverse().state_dict().values())


def test_load_state_dict_refuses_what_does_not_fit_and_changes_nothing(model):
    model.apply("merge-linears")
    weights, before = new_weights(model), model.state_dict()
    key = next(iter(weights))
    for wrong, why in [({**weights, key[:-1]: weights[key]}, "no weight .* did you mean"),
                       ({k: w for k, w in weights.items() if k != key}, f"'{key}' is missing"),
                       ({**weights, key: weights[key][:1]}, "should be f32"),
                       ({**weights, key: weights[key].double()}, "not f64")]:
        with pytest.raises(refx.Error, match=why):
            model.load_state_dict(wrong)
    assert len(model.log()) == 2
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
