"""Code is generated when somebody first looks; and nobody can tell, wherever he looks from."""

import contextlib
import copy
import gc
import inspect
import io
import pickle
import sys
import tempfile
import threading
import unittest.mock
import warnings
import weakref

import pytest
import torch
from torch import fx, nn
from torch.fx import GraphModule, symbolic_trace
from torch.fx._lazy_graph_module import _LazyGraphModule

from kit import by_pickle, by_torch_save
from refx.fx import ChangeTrueDivToMulByInverse, MergeLinears, Transformation, compose, reverse


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        return torch.relu(self.q(x) + self.k(x)) / 4.0 - self.v(x)


class Parent(nn.Module):
    def __init__(self, child):
        super().__init__()
        self.child = child

    def forward(self, x):
        return self.child(x) + 1


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def traced(cls=None):
    torch.manual_seed(0)
    gm = symbolic_trace(Net())
    return gm if cls is None else cls(gm, gm.graph)


def is_late(gm):
    return "_code" not in vars(gm)


def late(**options):
    gm = MergeLinears()(traced(), **options)
    assert is_late(gm)
    return gm


def eager():
    gm = MergeLinears()(traced())
    gm.recompile()
    assert not is_late(gm)
    return gm


# ---- looks ---------------------------------------------------------------------------------------

LOOKS = {}


def look(function):
    LOOKS[function.__name__] = function
    return function


@look
def call(gm):
    return gm(X)


@look
def forward(gm):
    return gm.forward(X)


@look
def forward_of_the_class(gm):
    return type(gm).forward(gm, X)


@look
def call_of_module(gm):
    return nn.Module.__call__(gm, X)


@look
def code(gm):
    return gm.code


@look
def private_code(gm):
    return gm._code


@look
def line_numbers(gm):
    return str(gm._lineno_map)


@look
def printed(gm):
    return str(gm)


@look
def source(gm):
    return inspect.getsource(gm.forward)


@look
def source_of_the_class(gm):
    return inspect.getsource(type(gm).forward)


@look
def constants(gm):
    return str(gm.forward.__code__.co_names)


@look
def members(gm):
    return inspect.getsource(dict(inspect.getmembers(gm, inspect.ismethod))["forward"])


@look
def pickled(gm):
    return by_pickle(gm)(X)


@look
def pickled_in_a_parent(gm):
    return pickle.loads(pickle.dumps(Parent(gm), protocol=2))(X)


@look
def saved(gm):
    return by_torch_save(gm)(X)


@look
def reduced(gm):
    body, imports = gm.__reduce__()[1]
    return body["_code"] + imports


@look
def packaged(gm):
    file = io.BytesIO()
    with torch.package.PackageExporter(file) as exporter:
        exporter.extern(["torch.**", "refx.**", "sys"])
        exporter.save_pickle("models", "gm.pkl", gm)
    file.seek(0)
    return torch.package.PackageImporter(file).load_pickle("models", "gm.pkl")(X)


@look
def deep_copy(gm):
    return copy.deepcopy(gm)(X) + gm(X)


@look
def deep_copy_of_a_parent(gm):
    return copy.deepcopy(Parent(gm))(X) + gm(X)


@look
def shallow_copy(gm):
    return copy.copy(gm)(X) + gm(X)


@look
def replica(gm):
    return gm._replicate_for_data_parallel()(X) + gm(X)


@look
def to_folder(gm):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gm.to_folder(folder)
        return open(f"{folder}/module.py").read().replace(folder, "")


@look
def trace_again(gm):
    return symbolic_trace(gm).code


@look
def trace_a_parent(gm):
    return symbolic_trace(Parent(gm)).code


@look
def in_another_graph(gm):
    class Whole(fx.Tracer):
        def is_leaf_module(self, module, path):
            return isinstance(module, GraphModule)

    parent = Parent(gm)
    return GraphModule(parent, Whole().trace(parent))(X)


@look
def make_fx(gm):
    from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx(gm)(X).code


@look
def compiled(gm):
    torch._dynamo.reset()
    return torch.compile(gm, backend="eager", fullgraph=True)(X)


@look
def compiled_in_a_parent(gm):
    torch._dynamo.reset()
    return torch.compile(Parent(gm), backend="eager", fullgraph=True)(X)


@look
def compiled_in_a_function(gm):
    torch._dynamo.reset()
    return torch.compile(lambda x: gm(x) + gm.forward(x), backend="eager", fullgraph=True)(X)


@look
def compiled_in_place(gm):
    torch._dynamo.reset()
    gm.compile(backend="eager", fullgraph=True)
    return gm(X)


@look
def compiled_call(gm):
    torch._dynamo.reset()
    return torch.compile(gm.__call__, backend="eager")(X)


@look
def scripted(gm):
    return torch.jit.script(gm).code


@look
def scripted_in_a_parent(gm):
    return torch.jit.script(Parent(gm))(X)


@look
def jit_traced(gm):
    return torch.jit.trace(gm, X).code


@look
def exported(gm):
    return torch.export.export(gm, (X,)).graph_module.code


@look
def exported_strictly(gm):
    torch._dynamo.reset()
    return torch.export.export(gm, (X,), strict=True).graph_module.code


@look
def exported_in_a_parent(gm):
    torch._dynamo.reset()
    return torch.export.export(Parent(gm), (X,), strict=True).graph_module.code


@look
def hooks(gm):
    gm.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    gm.register_forward_hook(lambda module, args, out: out * 2)
    return gm(X)


@look
def functional_call(gm):
    return torch.func.functional_call(gm, {k: v * 2 for k, v in gm.state_dict().items()}, (X,))


@look
def grad(gm):
    return torch.func.grad(lambda x: gm(x).sum())(X)


@look
def wrapped_by_an_instance(gm):
    old = gm.forward
    gm.forward = lambda x: old(x) + 1
    return gm(X) + type(gm).forward(gm, X)


@look
def overridden_by_an_instance(gm):
    gm.forward = lambda x: x + 1
    return gm(X) + type(gm).forward(gm, X)


@look
def replaced_in_the_class(gm):
    type(gm).forward = lambda self, x: x + 1
    assert gm.code
    return gm.code + str(gm(X))


@look
def patched_for_a_while(gm):
    with unittest.mock.patch.object(type(gm), "forward", lambda self, x: x + 1):
        during = gm(X)
        assert gm.code
        assert torch.equal(gm(X), during)
    return gm(X) + during


@look
def derived_class(gm):
    class Derived(type(gm)):
        def forward(self, x):
            return super().forward(x) * 2

    gm.__class__ = Derived
    first = gm(X)
    return str([first, gm(X), gm.code, "forward" in vars(Derived), type(gm) is Derived])


@look
def recompiled(gm):
    return gm.recompile().src + gm.code + str(gm(X))


@look
def wrong_input(gm):
    with contextlib.redirect_stderr(io.StringIO()) as said, pytest.raises(RuntimeError) as failure:
        gm(torch.ones(3, 5))
    return str(failure.value) + str("Call using an FX-traced Module" in said.getvalue())


@look
def under_no_grad_and_in_a_thread(gm):
    results = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: results.append(gm(X).detach()))
        thread.start()
        thread.join()
    return results[0]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return a == b


@pytest.mark.parametrize("options", [{}, {"lint_and_recompile": False}], ids=["", "unfinished"])
@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_the_new_code(name, options):
    assert same(LOOKS[name](late(**options)), LOOKS[name](eager()))


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_what_was_taken_back(name):
    gm = MergeLinears()(late(), reverse=True)
    assert is_late(gm)
    assert same(LOOKS[name](gm), LOOKS[name](traced()))


NO_LOOKS = {
    "graph": lambda gm: gm.graph.nodes,
    "state": lambda gm: gm.load_state_dict(gm.state_dict()),
    "parameters": lambda gm: [*gm.parameters(), *gm.named_modules()],
    "mode": lambda gm: gm.train().eval().double(),
    "repr": repr,
    "attributes": lambda gm: (gm.training, gm.meta, dir(gm)),
    "print_readable": lambda gm: gm.print_readable(print_output=False),
    "Interpreter": lambda gm: fx.Interpreter(gm).run(X),
    "another transformation": ChangeTrueDivToMulByInverse(),
    "reverse": reverse,
}


@pytest.mark.parametrize("name", NO_LOOKS)
def test_what_needs_no_code_does_not_generate_it(name):
    gm = late()
    NO_LOOKS[name](gm)
    assert is_late(gm)


def test_once_generated_nothing_is_left():
    gm, twin = late(), eager()
    gm(X)
    assert vars(type(gm)).keys() == vars(type(twin)).keys()
    assert vars(gm).keys() == vars(twin).keys()


def test_it_does_not_live_longer():
    gm = weakref.ref(late())
    gc.collect()
    assert gm() is None


def test_threads_that_look_first():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            gm, results, barrier = late(), [], threading.Barrier(4)
            expected = eager()(X)

            def run(gm=gm, results=results, barrier=barrier):
                barrier.wait()
                results.append(gm(X))

            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(results) == 4 and all(torch.equal(r, expected) for r in results)
    finally:
        sys.setswitchinterval(interval)


# ---- a graph that is edited by hand ----------------------------------------------------------------


def sub_for_relu(gm):
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.tanh


def erase(gm):
    for node in reversed(gm.graph.nodes):
        if node.target is torch.relu:
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)


def insert(gm):
    out = next(iter(reversed(gm.graph.nodes)))
    with gm.graph.inserting_before(out):
        out.args = (gm.graph.call_function(torch.neg, out.args),)


def rename(gm):
    next(iter(gm.graph.nodes))._rename("other")


def kwargs(gm):
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.kwargs = {"input": node.args[0]}
            node.args = ()


def codegen(gm):
    class Renamed(fx.graph.CodeGen):
        def gen_fn_def(self, *args, **kwargs):
            return super().gen_fn_def(*args, **kwargs).replace("x", "xx")

    gm.graph.set_codegen(Renamed())


@pytest.mark.parametrize("edit", [sub_for_relu, erase, insert, rename, kwargs, codegen])
def test_an_edit_by_hand_waits_for_recompile(edit):
    gm, twin = late(), eager()
    for module in gm, twin:
        graph = module.graph
        edit(module)
        assert module.graph is graph
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))
    assert gm.graph.owning_module is gm
    if edit is codegen:
        return
    for module in gm, twin:
        module.graph.lint()
        module.recompile()
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))


@pytest.mark.parametrize("edit", [sub_for_relu, erase, insert, rename, kwargs])
def test_recompile_after_an_edit_by_hand(edit):
    gm, twin = late(), eager()
    for module in gm, twin:
        edit(module)
        module.recompile()
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))
    assert torch.equal(by_pickle(gm)(X), twin(X)) and gm.code == twin.code


@pytest.mark.parametrize("edit", [sub_for_relu, erase, insert, rename, kwargs])
def test_refx_after_an_edit_by_hand(edit):
    gm, twin = late(), eager()
    for module in gm, twin:
        edit(module)
        ChangeTrueDivToMulByInverse()(module)
    twin.recompile()
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))


def test_a_recompile_that_fails_leaves_the_code():
    gm, twin = late(), eager()
    for module in gm, twin:
        sub_for_relu(module)
        with unittest.mock.patch.object(fx.Graph, "python_code", side_effect=RuntimeError):
            with pytest.raises(RuntimeError):
                module.recompile()
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))


def test_another_graph():
    gm, twin = late(), eager()
    for module in gm, twin:
        module.graph = symbolic_trace(nn.ReLU()).graph
    assert gm.code == twin.code and torch.equal(gm(X), twin(X))


# ---- who is not kept waiting -----------------------------------------------------------------------


class OwnRecompile(GraphModule):
    count = 0

    def recompile(self):
        self.count += 1
        return super().recompile()


class OwnForward(GraphModule):
    def forward(self, x):
        return super().forward(x)


def test_a_recompile_of_its_own_is_called_at_once():
    gm = traced(OwnRecompile)
    count = gm.count
    MergeLinears()(gm)
    assert gm.count == count + 1 and not is_late(gm)
    ChangeTrueDivToMulByInverse()(gm, lint_and_recompile=False)
    assert gm.count == count + 1


def test_a_forward_of_its_own():
    gm = MergeLinears()(traced(OwnForward))
    assert not is_late(gm) and torch.equal(gm(X), eager()(X))


@pytest.mark.parametrize("name", ["recompile", "__reduce__"])
def test_methods_of_an_instance(name):
    gm, seen = traced(), []
    setattr(gm, name, lambda: seen.append(GraphModule.recompile(gm)))
    MergeLinears()(gm)
    assert not is_late(gm) and torch.equal(gm(X), eager()(X))
    assert len(seen) == (name == "recompile")


def test_a_class_that_is_not_its_own():
    class Shared(GraphModule):
        forward = OwnForward.forward

    gm, other = traced(), traced()
    gm.__class__ = other.__class__ = Shared
    MergeLinears()(gm)
    assert not is_late(gm) and not is_late(other)


def test_a_method_in_its_class():
    gm, seen = traced(), []
    type(gm).recompile = lambda self: seen.append(GraphModule.recompile(self))
    MergeLinears()(gm)
    assert seen and not is_late(gm)


def test_a_graph_module_with_another_inside():
    gm = traced()
    gm.add_submodule("inside", traced())
    MergeLinears()(gm)
    assert not is_late(gm)


def test_a_code_generator_of_ones_own():
    gm = traced()
    gm.graph.set_codegen(type("Own", (fx.graph.CodeGen,), {})())
    MergeLinears()(gm)
    assert not is_late(gm)


def test_a_transformer_of_code_is_called_at_once():
    gm, seen = traced(), []
    gm.graph.on_generate_code(lambda current: lambda body: seen.append(body) or body)
    MergeLinears()(gm)
    assert seen and not is_late(gm)


def test_arguments_in_containers():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, pair):
            return self.net(pair["a"]) + pair["b"]

    torch.manual_seed(0)
    net = Pair()
    gm, twin = (symbolic_trace(net, {"pair": {"a": fx.PH, "b": fx.PH}}) for _ in range(2))
    for module in gm, twin:
        MergeLinears()(module)
    twin.recompile()
    assert is_late(gm) and gm._in_spec == twin._in_spec and gm._out_spec == twin._out_spec
    assert gm.code == twin.code and torch.equal(gm({"a": X, "b": X}), twin({"a": X, "b": X}))


def test_a_lazy_graph_module_of_torch():
    gm = MergeLinears()(traced(_LazyGraphModule))
    assert gm._needs_recompile() and torch.equal(gm(X), eager()(X))


# ---- transformations -------------------------------------------------------------------------------


def test_a_transformation_of_ones_own():
    class Tanh(Transformation):
        def transform(self, graph_module):
            sub_for_relu(graph_module)
            return graph_module

    gm = Tanh()(traced())
    assert is_late(gm) and "tanh" in gm.code


def test_composed():
    both = compose(MergeLinears(), ChangeTrueDivToMulByInverse())
    gm, twin = both(traced()), both(traced())
    twin.recompile()
    assert is_late(gm) and gm.code == twin.code and torch.equal(gm(X), twin(X))


def test_unfinished_can_be_saved():
    """The former code would look for modules that are gone."""
    gm = MergeLinears()(traced(), lint_and_recompile=False)
    loaded = by_pickle(gm)
    assert torch.equal(loaded(X), eager()(X))
    MergeLinears()(loaded, reverse=True)
    assert loaded.code == traced().code and torch.equal(loaded(X), traced()(X))
