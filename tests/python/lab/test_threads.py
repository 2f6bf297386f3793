# SPDX-License-Identifier: Apache-2.0
"""One refx.Model in several threads: calls run at the same time; changes take turns and are visible only when complete."""

import sys
import threading

import pytest
import torch

import refx


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4.0
        return scores.softmax(-1) @ self.value(x)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture()
def model():
    torch.manual_seed(0)
    return refx.export(torch.nn.Sequential(Attention(), Attention()).eval(), (torch.randn(2, 4, 16),))


def at_once(*functions):
    barrier, failures = threading.Barrier(len(functions)), []

    def run(function):
        barrier.wait()
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_calls(model):
    def call(seed):
        x = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(seed))
        expected = alone[seed]
        for _ in range(100):
            assert torch.equal(model(x), expected)

    alone = [model(torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(seed))) for seed in range(4)]
    at_once(*(lambda seed=seed: call(seed) for seed in range(4)))


def test_calls_beside_changes(model):
    x, done = torch.randn(2, 4, 16), threading.Event()
    expected = model(x)

    def call():
        while not done.is_set():
            torch.testing.assert_close(model(x), expected)

    def read():
        while not done.is_set():
            assert len(model.log()) in (0, 2, 4)
            assert len(model.sites("merge-linears")) in (0, 2)
            assert len(model.state_dict()) in (4, 12)
            str(model), model.graph

    def change():
        try:
            for _ in range(20):
                model.apply("merge-linears")
                model.apply("change-true-div-to-mul-by-inverse")
                model.reverse("change-true-div-to-mul-by-inverse")
                model.reverse()
        finally:
            done.set()

    at_once(call, call, read, change)
    assert torch.equal(model(x), expected) and not model.log()


def test_a_change_shows_when_it_is_complete(model):
    """In the middle of it, when tune calls an acceptance test, the model is unchanged."""
    seen = []

    def accept(form):
        seen.append(len(model.log()))
        return True

    model.tune("store-linear-int8", threads=1, seconds=0.1, prefer="size", accept=accept)
    assert set(seen) == {0} and model.log()


def test_changes_take_turns(model):
    def change(name):
        for _ in range(10):
            model.apply(name)
            model.reverse(name)

    at_once(*(lambda name=name: change(name) for name in ("merge-linears", "change-true-div-to-mul-by-inverse")))
    assert not model.log()


def test_calls_of_a_model_with_state_take_turns():
    counter = refx.export(Counter(), (torch.zeros(1),))

    def call():
        for _ in range(100):
            counter(torch.zeros(1))

    at_once(call, call, call)
    assert counter.run_state()["calls"] == 300


def test_a_change_inside_of_a_change_is_refused(model):
    with pytest.raises(refx.Error, match=r"is being changed .* model.copy\(\)"):
        model.tune("store-linear-int8", threads=1, seconds=0.1, prefer="size",
                   accept=lambda form: bool(model.reverse()))
    model.apply("merge-linears")  # the lock was given back
