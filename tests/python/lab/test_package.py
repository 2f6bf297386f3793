"""model.bench, tune, bisect and report of the Python package."""

import threading

import pytest
import torch

import refx


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


def test_bench_against_the_original(model):
    model.apply("merge-linears")
    seen = []
    result = model.bench(**QUICK, per_step=True, progress=lambda *now: seen.append(now))
    assert result.speed in ("faster", "slower", "no difference", "unstable")
    assert result.low <= result.ratio <= result.high
    assert [step["site"] for step in result.steps] == ["0.{query,key,value}", "1.{query,key,value}"]
    assert result.data["threads"] == 1
    assert "inference mode" in str(result)
    assert "<pre>" in result._repr_html_()
    assert seen[0][:2] == (0, 300) and seen[-1][0] <= 300


def test_verify_holds_lossy_steps_to_a_budget(model):
    model.apply("store-linear-int8")
    measured = model.verify(per_step=True, by_error=True)
    assert measured and measured.verdict == "lossy" and "no budget" in measured.text
    errors = [step["worst"]["l2"] for step in measured.steps]
    assert errors and errors == sorted(errors, reverse=True)
    error = measured.data["lossy"]["error"]
    assert model.verify(budget=1.01 * error)
    assert not model.verify(budget=0.99 * error)


def test_bench_takes_inputs_and_batches(model):
    x = torch.randn(3, 4, 16)
    assert "f32[3, 4, 16]" in model.bench(inputs=((x,), {}), **QUICK).data["inputs"]
    assert "f32[3, 4, 16]" in model.bench(inputs=(x,), **QUICK).data["inputs"]
    assert "f32[8, 4, 16]" in model.bench(batch=8, **QUICK).data["inputs"]
    with pytest.raises(refx.Error, match="range"):
        model.bench(batch=99, **QUICK)


def test_what_would_help_is_said_in_arguments(model):
    with pytest.raises(refx.Error, match="^a CPU has no graphs to capture; choose a device: device='cuda'$"):
        model.bench(cuda_graph=True, **QUICK)
    with pytest.raises(refx.Error, match=r"^there is no transformation 'xyzzy'; help\(refx.fx\) shows them$"):
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
    result = model.tune("merge-linears", "change-true-div-to-mul-by-inverse", **QUICK, record=record)
    assert result.changed == bool(model.log())
    assert len(result.data["classes"]) == 2
    torch.testing.assert_close(model(x), expected)
    trials = record.read_text().splitlines()
    again = model.copy().tune("merge-linears", "change-true-div-to-mul-by-inverse", **QUICK, known=[record])
    assert all(t["remembered"] for c in again.data["classes"] for t in c["trials"])
    assert record.read_text().splitlines() == trials


def test_bisect_with_a_function(model):
    model.apply("merge-linears", "change-true-div-to-mul-by-inverse", "fuse-bias-in-linear")
    guilty = {"merge-linears 1.{query,key,value}", "change-true-div-to-mul-by-inverse 0.div"}
    forms = []

    def check(form):
        forms.append(form)
        return not guilty <= {f"{s.transformation} {s.site}" for s in form.log()}

    result = model.bisect(check)
    assert [{f"{s.transformation} {s.site}" for s in steps} for steps in result.culprits] == [guilty]
    assert result and len(forms) == result.data["checks"]
    for step in result.repair:
        model.reverse(step, dependents="cascade")
    assert check(model)
    assert not model.bisect(check)


def test_bisect_with_a_tolerance(model):
    model.apply("merge-linears")
    assert not model.bisect(1e-3)
    assert model.bisect(0.0).data["current"] == "good"


def test_bisect_with_a_command(model):
    model.apply("merge-linears")
    result = model.bisect("test -s {} && exit 1")
    assert result.data["original"] == "bad" and not result
    with pytest.raises(refx.Error, match="was not found"):
        model.bisect("no-such-command {}")


def test_what_a_check_raises_comes_out(model):
    model.apply("merge-linears")

    def check(form):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.bisect(check)


def test_a_search_goes_on_where_it_was(model, tmp_path):
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
    assert result.data["remembered"] == 2
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
