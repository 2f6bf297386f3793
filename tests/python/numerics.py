# SPDX-License-Identifier: Apache-2.0
"""Whether two forms of a model compute the same: judged by an fp64 run of the original module."""

import copy

import torch
from torch.utils import _pytree as pytree


def widen(value):
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return value.to(torch.complex128)
        return value.double() if value.is_floating_point() else value
    return value


def exact(example, args, kwargs):
    """Results, written inputs and state of an fp64 run of the module itself."""
    module = copy.deepcopy(example.module)
    module._apply(widen)
    for m in module.modules():
        for name, value in list(vars(m).items()):
            if isinstance(value, torch.Tensor):
                setattr(m, name, widen(value))
    args, kwargs = pytree.tree_map(widen, copy.deepcopy((args, kwargs)))
    torch.manual_seed(0)
    with torch.no_grad():
        out = module(*args, **kwargs)
    return out, (args, kwargs), dict(module.named_buffers(remove_duplicate=False))


def results(program, args, kwargs):
    """The same of an exported program; of its state, what the run wrote."""
    module = program.module()
    args, kwargs = copy.deepcopy((args, kwargs))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    before = {k: v.clone() for k, v in buffers.items()}
    torch.manual_seed(0)
    with torch.no_grad():
        out = copy.deepcopy(module(*args, **kwargs))
    written = {k: v.clone() for k, v in buffers.items() if not torch.equal(v, before[k])}
    for k in written:  # they belong to the program, not to the module
        buffers[k].copy_(before[k])
    return out, (args, kwargs), written


def error(value, truth):
    return (value.to(truth.dtype) - truth).abs().max().item() if value.numel() else 0.0


def differs(current, original, truth):
    """Why `current` is not as good as `original`, or None."""
    if type(current) is not type(original):
        return f"a {type(current).__name__} instead of a {type(original).__name__}"
    if not isinstance(current, torch.Tensor):
        return None if current == original else f"{current!r} instead of {original!r}"
    if (current.dtype, current.shape) != (original.dtype, original.shape):
        return f"{current.dtype}{list(current.shape)} instead of {original.dtype}{list(original.shape)}"
    if not current.dtype.is_floating_point and not current.dtype.is_complex:
        return None if torch.equal(current, original) else "other whole numbers"
    finite = original.isfinite()
    if not torch.equal(finite, current.isfinite()):
        return "finite where it was not, or the other way round"
    if not torch.equal(current[~finite].nan_to_num(), original[~finite].nan_to_num()):
        return "another infinity or NaN"
    current, original, truth = current[finite], original[finite], truth[finite]
    allowed = 4 * error(original, truth)
    if truth.numel():
        allowed += 8 * torch.finfo(current.dtype).eps * truth.abs().max().item()
    off = error(current, truth)
    return None if off <= allowed else f"error {off:.3g}, of which {allowed:.3g} would be allowed"


def check_same(current, original, truth, what):
    """Same nesting, and every leaf as close to the truth as the original's."""
    out, inputs, buffers = current
    expected_out, expected_inputs, expected_buffers = original
    true_out, true_inputs, true_buffers = truth
    assert buffers.keys() == expected_buffers.keys(), what
    true_buffers = {k: true_buffers[k] for k in buffers}
    leaves, spec = pytree.tree_flatten((out, inputs, buffers))
    expected, expected_spec = pytree.tree_flatten((expected_out, expected_inputs, expected_buffers))
    true = pytree.tree_leaves((true_out, true_inputs, true_buffers))
    assert spec == expected_spec, what
    assert len(true) == len(leaves)
    for i, (a, b, c) in enumerate(zip(leaves, expected, true)):
        reason = differs(a, b, c)
        assert not reason, f"{what}: result {i}: {reason}"


class Recorder(torch.fx.Interpreter):
    """Notes where a value is not what the graph says of it: torch trusts these notes and never checks."""

    def __init__(self, module, strides):
        super().__init__(module)
        self.strides, self.wrong = strides, []

    def run_node(self, node):
        value = super().run_node(node)
        said = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        for real, noted in zip(torch.utils._pytree.tree_leaves(value), said):
            reason = misdescribed(real, noted, self.strides)
            if reason:
                self.wrong.append(f"{node.name}: {reason}")
        return value


def hint(size):
    return size if isinstance(size, int) else size.node.hint


def misdescribed(real, noted, strides_too):
    if not isinstance(real, torch.Tensor) or not isinstance(noted, torch.Tensor):
        return None
    if real.dtype != noted.dtype or real.dim() != noted.dim():
        return f"{real.dtype}, {real.dim()} dimensions; noted: {noted.dtype}, {noted.dim()} dimensions"
    sizes = [hint(s) for s in noted.shape]
    if any(s is not None and s != r for s, r in zip(sizes, real.shape)):
        return f"{list(real.shape)}; noted: {sizes}"
    if not strides_too or not real.numel():
        return None
    strides = [hint(s) for s in noted.stride()]
    if any(t is not None and t != r and n > 1 for t, r, n in zip(strides, real.stride(), real.shape)):
        return f"strides {real.stride()}; noted: {strides}"
    return None


def misdescribed_values(program, args, kwargs, strides=False):
    """Of the values of a graph, those that its metadata describes wrongly."""
    args, kwargs = copy.deepcopy((args, kwargs))
    recorder = Recorder(program.graph_module, strides)
    inputs = pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t,
                             program._graph_module_flat_inputs(args, kwargs))
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.wrong
