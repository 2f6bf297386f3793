# SPDX-License-Identifier: Apache-2.0
"""The result is an ordinary GraphModule: compiled, exported, in threads, garbage collected."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest
import torch

import refx
import zoo
from kit import Snapshot, flat, trace
from refx.fx import FuseBatchNorm2dInConv2d, FuseBiasInLinear, MergeLinears, compose


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_torch_compile(backend):
    if backend == "inductor" and " " in torch.__file__:
        pytest.skip("torch's inductor does not quote its own path for the compiler")
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    before = Snapshot(gm)
    both = compose(MergeLinears(), FuseBiasInLinear())
    both(gm)
    compiled = torch.compile(gm, backend=backend, fullgraph=True)
    with torch.no_grad():
        for a, b in zip(flat(compiled(*inputs)), flat(model(*inputs))):
            torch.testing.assert_close(a, b)
    both(gm, reverse=True)
    after = Snapshot(gm)
    assert (after.nodes, after.keys) == (before.nodes, before.keys)


def test_export():
    model, inputs = zoo.make("resnet")
    gm = FuseBatchNorm2dInConv2d()(trace(model))
    program = torch.export.export(gm, inputs)
    torch.testing.assert_close(program.module()(*inputs), model(*inputs))


def test_printing():
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    assert "query-key-value-merged" in str(gm) and "merged" in str(gm.graph)
    assert "query-key-value-merged" in gm.print_readable(print_output=False)


def test_it_is_garbage_collected():
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    alive = weakref.ref(gm)
    del gm
    gc.collect()
    assert alive() is None


def test_threads():
    failures = []

    # torch.fx.symbolic_trace patches Module.__call__ for all threads, so tracing is done before.
    graphs = {name: [trace(zoo.make(name, s)[0]) for s in range(3)] for name in ("vit", "mlp")}

    def transform(name, t):
        try:
            for gm in graphs[name]:
                before = Snapshot(gm)
                for _ in range(3):
                    t(gm)
                    t(gm, reverse=True)
                Snapshot(gm).assert_equals(before)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=transform, args=a) for a in
               (("vit", MergeLinears()), ("mlp", FuseBiasInLinear()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_two_threads_on_one_graph():
    gm = trace(zoo.make("encoder")[0])
    before = Snapshot(gm)
    errors = []

    def work():
        try:
            MergeLinears()(gm, lint_and_recompile=False)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    MergeLinears()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_another_torch_is_a_clear_error():
    script = ("import torch; torch.__version__ = '1.2.3'\n"
              "try:\n    import refx\nexcept ImportError as e:\n    print(e)")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                         env={"PYTHONPATH": ":".join(sys.path)})
    assert "was built for torch " + refx._build.TORCH in run.stdout, run.stderr
    assert "this is torch 1.2.3" in run.stdout


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_stay_on_their_device():
    model, inputs = zoo.make("encoder")
    gm = trace(model.cuda())
    before = Snapshot(gm)
    t = compose(MergeLinears(), FuseBiasInLinear())
    t(gm)
    assert all(p.is_cuda for p in gm.parameters())
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    t(gm)
    gm.cpu()
    t(gm, reverse=True)
    assert not any(p.is_cuda for p in gm.parameters())
