"""Lint: refx decides whether a graph is fine; what is wrong, torch.fx says."""

import random

import pytest
import torch
from torch import fx, nn
from torch.fx import GraphModule

from refx import _core
from refx.fx import MergeLinears, Transformation


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4))
        self.scale = 2.0

    def forward(self, x):
        return torch.relu(self.deep(x) * self.weight + self.shift).reshape(-1) * self.scale


def traced():
    gm = fx.symbolic_trace(Net())
    assert _core.passes_lint(gm.graph)
    return gm


def node(gm, op, target=None):
    return next(n for n in gm.graph.nodes if n.op == op and target in (None, n.target))


def put(node, name, value):
    object.__setattr__(node, name, value)


# ---- what is wrong -------------------------------------------------------------------------------

FAULTS = {}


def fault(function):
    FAULTS[function.__name__] = function
    return function


@fault
def unknown_opcode(gm):
    put(node(gm, "call_method"), "op", "call_nothing")


@fault
def node_of_another_graph(gm):
    put(node(gm, "call_method"), "graph", fx.Graph())


@fault
def not_in_the_side_table(gm):
    relu = node(gm, "call_function", torch.relu)
    gm.graph._find_nodes_lookup_table.remove(relu)


@fault
def in_the_side_table_of_another_target(gm):
    put(node(gm, "call_function", torch.relu), "target", torch.tanh)


@fault
def argument_of_another_graph(gm):
    node(gm, "call_function", torch.relu).args = (node(traced(), "placeholder"),)


@fault
def argument_that_was_erased(gm):
    with gm.graph.inserting_before(node(gm, "output")):
        gone = gm.graph.call_function(torch.neg, (node(gm, "placeholder"),))
    gm.graph.erase_node(gone)
    node(gm, "call_method").args = (gone, -1)


@fault
def used_before_it_is_defined(gm):
    node(gm, "placeholder").prepend(node(gm, "call_function", torch.relu))


@fault
def reads_itself(gm):
    relu = node(gm, "call_function", torch.relu)
    relu.args = (relu,)


@fault
def name_twice(gm):
    put(node(gm, "call_method"), "name", node(gm, "placeholder").name)


@fault
def function_that_is_none(gm):
    node(gm, "call_function", torch.relu).target = 7


@fault
def method_that_is_no_name(gm):
    put(node(gm, "call_method"), "target", torch.relu)


@fault
def placeholder_that_is_no_name(gm):
    put(node(gm, "placeholder"), "target", 7)


@fault
def module_that_is_not_there(gm):
    delattr(gm.deep, "0")


@fault
def holder_that_is_not_there(gm):
    del gm.deep


@fault
def module_behind_a_class_attribute(gm):
    type(gm).deep = None


@fault
def parameter_that_is_none(gm):
    gm.weight = None


@fault
def buffer_that_is_not_there(gm):
    del gm.shift


@fault
def call_of_a_tensor(gm):
    node(gm, "call_module").target = "weight"


@fault
def call_through_a_tensor(gm):
    node(gm, "call_module").target = "weight.data"


@fault
def path_with_nothing_first(gm):
    node(gm, "get_attr").target = ".weight"


@fault
def path_with_nothing_last(gm):
    node(gm, "get_attr").target = "weight."


@fault
def path_of_nothing(gm):
    node(gm, "get_attr").target = ""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_both(name):
    gm = traced()
    FAULTS[name](gm)
    with pytest.raises((RuntimeError, ValueError)) as said:
        gm.graph.lint()
    assert not _core.passes_lint(gm.graph)

    class Nothing(Transformation):
        def transform(self, graph_module):
            return graph_module

        def _run(self, graph_module, checked):  # refx does not even read it
            return graph_module

    with pytest.raises(said.type) as repeated:
        Nothing()(gm)
    assert str(repeated.value) == str(said.value)


# ---- what is not -----------------------------------------------------------------------------------


def random_graph(seed):
    rng = random.Random(seed)
    root, graph = Net(), fx.Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(rng.randint(1, 3))]
    for _ in range(rng.randint(0, 40)):
        x, y = rng.choice(nodes), rng.choice(nodes)
        op, *call = rng.choice([
            ("call_function", torch.add, (x, y)),
            ("call_function", torch.cat, ([x, y],), {"dim": 0}),
            ("call_function", getattr, (x, "shape")),
            ("call_method", "reshape", (x, -1)),
            ("call_module", rng.choice(["deep", "deep.0", "deep.1.0"]), (x,)),
            ("get_attr", rng.choice(["weight", "shift", "deep.0.bias", "scale"])),
        ])
        nodes.append(graph.create_node(op, *call))
    graph.output({"out": nodes[-1], "all": tuple(nodes)})
    return root, graph


@pytest.mark.parametrize("seed", range(50))
def test_what_is_fine_passes_both(seed):
    root, graph = random_graph(seed)
    for owned in False, True:
        if owned:
            GraphModule(root, graph)
        graph.lint()
        assert _core.passes_lint(graph)


@pytest.mark.parametrize("seed", range(50))
def test_what_is_shuffled_passes_both_or_none(seed):
    root, graph = random_graph(seed)
    gm = GraphModule(root, graph)
    rng = random.Random(seed)
    for _ in range(3):
        a, b = (rng.choice(list(graph.nodes)) for _ in range(2))
        if a is not b:
            a.prepend(b)
    try:
        gm.graph.lint()
    except RuntimeError:
        assert not _core.passes_lint(graph)
    else:
        assert _core.passes_lint(graph)


def test_graphs_of_another_class_are_for_torch():
    class Own(fx.Graph):
        def lint(self):
            raise RuntimeError("not this one")

    graph = Own()
    graph.output(graph.placeholder("x"))
    gm = GraphModule(nn.Module(), graph)
    assert not _core.passes_lint(graph)
    with pytest.raises(RuntimeError, match="not this one"):
        MergeLinears()(gm)


def test_lint_can_be_left_out():
    class Untidy(Transformation):
        def transform(self, graph_module):
            not_in_the_side_table(graph_module)
            return graph_module

    gm = Untidy()(traced(), lint_and_recompile=False)
    with pytest.raises(RuntimeError, match="side table"):
        MergeLinears()(gm)
