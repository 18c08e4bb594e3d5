"""Mistakes in a user's own code: one line that says what is wrong, what would be right, and in which function.

Each case is a module as a user might write it. Lines marked HERE are those that the error line has to name.
"""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

import pytest
import torch

import baton
from baton.algorithms import ALGORITHMS
from baton.cli import main
from baton.errors import BadInput
from baton.failures import failing
from baton.setting import Setting

HEAD = """\
import numpy as np
import torch
from torch import nn
from baton.algorithms import Algorithm, Cohort, Local, State
from baton.datasets import Dataset
from baton.names import lane
from baton.schedules import declares

"""
QUADRATICS = {"dataset": "quadratic_random:dim=3", "clients": 4, "participants": 3, "local_steps": 2, "lr": 0.01}
DIGITS = {"dataset": "digits", "model": "logistic", "clients": 4, "participants": 3, "local_steps": 2}


class Case(NamedTuple):
    """A module, what of it is used, and what is to be told."""

    text: str
    says: str  # part of the line
    function: str = "make"  # the user's function that is named
    field: str = "algorithm"
    spec: str = ""  # what follows the name
    world: dict[str, object] = QUADRATICS


def a_round(body: str, says: str, **more: str) -> Case:
    """An algorithm whose round does this."""
    inside = indent(dedent(body).strip(), " " * 8)
    text = f"def make():\n    def round(state, order, sites):{'' if 'HERE' in body else '  # HERE'}\n{inside}\n"
    return Case(f"{text}    return Algorithm(round)\n", says, "round", **more)


def an_order(body: str, says: str) -> Case:
    """An algorithm that chooses the round's order so."""
    return Case(
        f"""
        def make():
            def round(state, order, sites):
                return State(sites.train(state.model, order[:1]).x and state.model)
            def choose(state, order, now):  # HERE
                {body}
            return Algorithm(round, order=choose)
        """,
        says,
        "choose",
    )


def kept(says: str, function: str, **parts: str) -> Case:
    """An algorithm with a server's drawer and clients' own; parts: what its functions do."""
    usual = {
        "server": "return {n: torch.zeros_like(leaf) for n, leaf in x.items()}",
        "init": "return {n: torch.zeros_like(leaf) for n, leaf in x.items()}",
        "begin": "return {n: sent[n] - leaf for n, leaf in kept.items()}",
        "end": "return leg.direction",
    }
    bodies = {**usual, **parts}
    at = {name: "" if "HERE" in bodies[name] or name != function else "  # HERE" for name in usual}
    return Case(
        f"""
        def server(x, now):{at["server"]}
            {bodies["server"]}

        def init(x):{at["init"]}
            {bodies["init"]}

        def begin(kept, sent):{at["begin"]}
            {bodies["begin"]}

        def end(kept, sent, leg):{at["end"]}
            {bodies["end"]}

        def make():
            def round(state, order, sites):
                reply = sites.train(state.model, order, sent=state.server)
                return State({{n: leaf.mean(1) for n, leaf in reply.x.items()}}, state.server)
            return Algorithm(round, server=server, local=Local(init, begin, end))
        """,
        says,
        function,
    )


def a_schedule(body: str, says: str) -> Case:
    return Case(f"def make(seed, round, clients, participants):  # HERE\n    {body}\n", says, field="schedule")


def a_model(body: str, says: str, function: str = "make") -> Case:
    return Case(dedent(body), says, function, field="model", world=DIGITS)


def a_partition(body: str, says: str) -> Case:
    mark = "" if "HERE" in body else "  # HERE"
    return Case(f"def make(labels, clients):{mark}\n    {body}\n", says, field="partition", world=DIGITS)


def a_dataset(body: str, says: str, function: str = "make") -> Case:
    return Case(dedent(body), says, function, field="dataset", world={k: DIGITS[k] for k in ("clients", "model")})


GOOD = "x, y = torch.randn(40, 2), torch.arange(40) % 2"
COST = "def cost(output, y):\n    return nn.functional.cross_entropy(output, y, reduction='none')\n\n"

CASES = {
    # --- the module
    "fails_on_import": Case("x = 1 / 0  # HERE\n", "cannot be imported (ZeroDivisionError: division by zero"),
    "syntax_error": Case("def make(:  # HERE\n", "cannot be imported (SyntaxError: invalid syntax"),
    "has_no_such_function": Case("def mak():\n    pass\n", "has no 'make'; did you mean 'mak'?"),
    "leaves_on_import": Case("raise SystemExit(1)  # HERE\n", "cannot be imported (SystemExit: 1"),
    # --- an algorithm's factory
    "gives_nothing": Case("def make():  # HERE\n    pass\n", "made a NoneType; an Algorithm is right"),
    "raises": Case("def make():\n    return {}['x']  # HERE\n", "failed (KeyError: 'x'"),
    "is_no_function": Case("make = Algorithm(print)\n", "is of type Algorithm; a function is right"),
    "lacks_an_option": Case("def make(*, mu: float):\n    return Algorithm(print)\n", "needs mu, as in"),
    "takes_an_argument": Case("def make(mu):  # HERE\n    return Algorithm(print)\n", "missing 1 required positional"),
    "has_no_round": Case("def make():  # HERE\n    return Algorithm(None)\n", "whose round is a NoneType; a function"),
    "has_a_server_that_is_no_function": Case(
        "def make():  # HERE\n    return Algorithm(print, server={})\n", "whose server is a dict; a function is right"
    ),
    "has_a_local_that_is_none": Case(
        "def make():  # HERE\n    return Algorithm(print, local=print)\n", "whose local is a builtin_function_or_method"
    ),
    "has_half_a_local": Case(
        "def make():  # HERE\n    return Algorithm(print, local=Local(None, print, print))\n",
        "whose local.init is a NoneType; a function is right",
    ),
    "has_an_option_out_of_bounds": Case(
        "def make(*, mu=lane(1.0, above=0)):\n    return Algorithm(print)\n", "above 0 is right", spec=":mu=-1"
    ),
    # --- what a round returns
    "returns_nothing": a_round("sites.train(state.model, order)", "returned a NoneType; a State is right"),
    "returns_a_dict": a_round("return state.model", "returned a dict; a State is right"),
    "returns_a_reply": a_round("return sites.train(state.model, order)", "returned a Reply; a State is right"),
    "returns_a_state_of_a_state": a_round("return State(state)", "a State whose model is a State; a dict of tensors"),
    "drops_a_leaf": a_round("return State({})", "returned a model without 'x'; a model with the leaves it"),
    "adds_a_leaf": a_round(
        "return State({**state.model, 'y': state.model['x']})", "returned a model with 'y' too; a model with"
    ),
    "adds_a_drawer": a_round("return State(state.model, {'v': 0})", "returned a server with 'v' too; a server with"),
    "forgets_to_average": a_round(
        "return State(sites.train(state.model, order).x)", "a model with 'x' of shape (1, 3, 3); (1, 3) is right"
    ),
    "changes_the_dtype": a_round(
        "return State({n: leaf.float() for n, leaf in state.model.items()})",
        "a model with 'x' in torch.float32; torch.float64 is right",
    ),
    "returns_a_list_for_a_leaf": a_round(
        "return State({n: leaf.tolist() for n, leaf in state.model.items()})", "'x' as a list; a tensor is right"
    ),
    "writes_over_its_state": a_round(
        """
        for leaf in state.model.values():
            leaf.mul_(0.5)
        return state
        """,
        "wrote over 'x' of the model it was given; new tensors are right",
    ),
    # --- what a round does
    "raises_inside": a_round("return State(state.model) + 1  # HERE", "failed (TypeError: can only concatenate tuple"),
    "is_no_round": Case(
        "def make():\n    return Algorithm(run)\n\ndef run(state):  # HERE\n    return state\n",
        "failed (TypeError: run() takes 1 positional argument but 3 were given",
        "run",
    ),
    "raises_in_a_helper": Case(
        """
        def make():
            def round(state, order, sites):
                return mean(sites.train(state.model, order))
            return Algorithm(round)

        def mean(reply):
            return State({n: leaf.view(7) for n, leaf in reply.x.items()})  # HERE
        """,
        "failed (RuntimeError: shape '[7]' is invalid for input of size 9",
        "mean",
    ),
    # --- what a round asks of its sites
    "trains_with_what_there_is_not": a_round(
        "return State(sites.train(state.model, order, steps=3).x)  # HERE", "unexpected keyword argument 'steps'"
    ),
    "trains_at_a_tensor": a_round(
        "return State(sites.train(state.model, order.index).x)  # HERE", "clients is a Tensor; a Cohort, such as"
    ),
    "trains_at_a_client_that_is_not": a_round(
        "return State(sites.train(state.model, Cohort(order.index[:, 0] + 4)).x)  # HERE",
        "there is no client 4; 0 to 3 is right",
    ),
    "trains_at_a_client_below_zero": a_round(
        "return State(sites.train(state.model, Cohort(order.index - 3)).x)  # HERE",
        "there is no client -3; 0 to 3 is right",
    ),
    "trains_at_half_clients": a_round(
        "return State(sites.train(state.model, Cohort(order.index / 2)).x)  # HERE", "the clients are torch.float32; a"
    ),
    "trains_at_clients_of_no_lane": a_round(
        "return State(sites.train(state.model, Cohort(torch.tensor(1))).x)  # HERE",
        "the clients have the shape (); (1,) or (1, C) is right",
    ),
    "trains_at_nobody": a_round(
        "return State(sites.train(state.model, order[3:]).x)  # HERE", "the clients have the shape (1, 0); (1,) or"
    ),
    "trains_at_other_places": a_round(
        "return State(sites.train(state.model, Cohort(order.index, (0,))).x)  # HERE", "3 clients at 1 places; a place"
    ),
    "trains_a_state": a_round(
        "return State(sites.train(state, order).x)  # HERE", "x is a State; a dict of tensors, such as state.model"
    ),
    "trains_without_a_leaf": a_round(
        "return State(sites.train({}, order).x)  # HERE", "x is a model without 'x'; the model's leaves are right"
    ),
    "trains_another_shape": a_round(
        "return State(sites.train({n: p[:, 1:] for n, p in state.model.items()}, order).x)  # HERE",
        "x has 'x' of shape (1, 2); (1, 3), or (1, 3, 3), is right",
    ),
    "trains_another_dtype": a_round(
        "return State(sites.train({n: p.half() for n, p in state.model.items()}, order).x)  # HERE",
        "x has 'x' in torch.float16; torch.float64 is right",
    ),
    "trains_a_list": a_round(
        "return State(sites.train({n: [p] for n, p in state.model.items()}, order).x)  # HERE", "'x' as a list; a"
    ),
    "pulls_by_a_number": a_round(
        "return State(sites.train(state.model, order, pull=0.1).x)  # HERE",
        "pull is a float; a tensor of one number a lane, (1,), is right",
    ),
    "pulls_by_a_number_a_client": a_round(
        "return State(sites.train(state.model, order, pull=torch.ones(3)).x)  # HERE",
        "pull has the shape (3,) and is in torch.float32; (1,) and torch.float64 is right",
    ),
    "has_an_anchor_without_a_leaf": a_round(
        "return State(sites.train(state.model, order, anchor={}).x)  # HERE", "anchor is a model without 'x'"
    ),
    "shifts_by_another_shape": a_round(
        "return State(sites.train(state.model, order, shift={'x': torch.ones(3)}).x)  # HERE",
        "shift has 'x' of shape (3,); (1, 3), or (1, 3, 3), is right",
    ),
    "sends_no_drawer": a_round(
        "return State(sites.train(state.model, order, sent=torch.ones(3)).x)  # HERE", "sent is a Tensor; a dict of"
    ),
    # --- what server and clients keep
    "server_is_no_dict": kept("returned a list; a dict of tensors is right", "server", server="return [x]"),
    "server_keeps_a_number": kept("returned 'v' as a float; a tensor is right", "server", server="return {'v': 0.0}"),
    "server_has_no_lanes": kept(
        "returned 'v' of shape (3,); one row a lane, (1, ...), is right",
        "server",
        server="return {'v': torch.zeros(3)}",
    ),
    "server_keeps_whole_numbers": kept(
        "returned 'v' in torch.int64", "server", server="return {'v': torch.zeros(len(x['x']), dtype=torch.int64)}"
    ),
    "server_raises": kept("failed (KeyError: 'w'", "server", server="return x['w']  # HERE"),
    "clients_keep_no_lanes": kept(
        "returned 'x' of shape (3,); one row a lane, (1, ...), is right",
        "init",
        init="return {n: torch.zeros(leaf.shape[1:]) for n, leaf in x.items()}",
    ),
    "clients_keep_nothing": kept("returned a NoneType; a dict of tensors is right", "init", init="pass"),
    "clients_begin_with_nothing": kept("returned a NoneType; a dict of tensors", "begin", begin="pass"),
    "clients_begin_without_a_leaf": kept("a shift without 'x'; a shift of each", "begin", begin="return {}"),
    "clients_begin_with_a_sum": kept(
        "returned 'x' of shape (1,); (1, 3, 3) is right", "begin", begin="return {'x': kept['x'].sum((1, 2))}"
    ),
    "clients_begin_in_half": kept(
        "returned 'x' in torch.float32; torch.float64 is right", "begin", begin="return {'x': kept['x'].float()}"
    ),
    "clients_begin_with_a_mistake": kept("failed (KeyError: 'c'", "begin", begin="return {'x': sent['c']}  # HERE"),
    "clients_end_with_nothing": kept("returned a NoneType; a dict of tensors is right", "end", end="pass"),
    "clients_end_with_more": kept(
        "what a client keeps with 'y' too; what it kept before", "end", end="return {**kept, 'y': 1}"
    ),
    "clients_end_with_a_mean": kept(
        "returned 'x' of shape (1, 1, 3); (1, 3, 3) is right", "end", end="return {'x': kept['x'].mean(1, True)}"
    ),
    # --- the order, and kinds of rounds
    "order_is_a_list": an_order("return [0, 1, 2]", "gives a list; a tensor of whole numbers [1, 3], one row a lane"),
    "order_is_short": an_order("return order[:, :2]", "gives the shape [1, 2]; a tensor of whole numbers [1, 3]"),
    "order_is_of_floats": an_order("return order / 2", "gives float32; a tensor of whole numbers"),
    "order_has_a_client_that_is_not": an_order("return order + 4", "; 0 to 3 is right"),
    "order_repeats": an_order(
        "return torch.zeros_like(order)",
        "has client 0 twice in a round; each once is right, or a schedule that @declares(repeats=True)",
    ),
    "kind_is_a_list": Case(
        "def make():\n    return Algorithm(print, kind=parity)\n\ndef parity(n):  # HERE\n    return [n % 2]\n",
        "returned a list; a number, a word, None, or",
        "parity",
    ),
    "kind_raises": Case(
        "def make():\n    return Algorithm(print, kind=parity)\n\ndef parity(n):\n    return n.item()  # HERE\n",
        "failed (AttributeError: 'int' object has no attribute 'item'",
        "parity",
    ),
    # --- a schedule
    "schedule_is_a_list": a_schedule("return [[0, 1, 2]]", "gives a list; a tensor of whole numbers"),
    "schedule_is_of_floats": a_schedule("return torch.zeros(len(seed), participants)", "gives float32; a tensor"),
    "schedule_has_one_row": a_schedule("return torch.arange(3)", "gives the shape [3]; a tensor of whole numbers"),
    "schedule_has_a_client_too_many": a_schedule(
        "return torch.arange(2, 5).expand(len(seed), -1)", "gives client 4; 0 to 3 is right"
    ),
    "schedule_repeats": a_schedule(
        "return torch.ones(len(seed), participants).long()",
        "has client 1 twice in a round; each once is right, or @declares(repeats=True)",
    ),
    "schedule_raises": Case(
        "def make(seed, round, clients, participants):\n    return 1 // 0  # HERE\n",
        "failed (ZeroDivisionError",
        field="schedule",
    ),
    "schedule_takes_too_little": Case(
        "def make(seed):  # HERE\n    return seed\n", "takes 1 positional argument but 4 were given", field="schedule"
    ),
    # --- a model
    "model_is_nothing": a_model("def make(shape, classes):  # HERE\n    pass\n", "gives a NoneType; a Module is right"),
    "model_raises": a_model(
        "def make(shape, classes):\n    return nn.Linear(shape, classes)  # HERE\n", "failed (TypeError: empty()"
    ),
    "model_has_no_parameters": a_model(
        "def make(shape, classes):  # HERE\n    return nn.ReLU()\n", "gives a ReLU without parameters"
    ),
    "model_cannot_take_samples": a_model(
        """
        class Net(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.last = nn.Linear(64, classes)

            def forward(self, x):
                return self.last(x.pixels)  # HERE

        def make(shape, classes):
            return Net(classes)
        """,
        "cannot take samples of shape (64,) (AttributeError: 'Tensor' object has no attribute 'pixels'",
        "forward",
    ),
    "model_gives_two": a_model(
        """
        class Net(nn.Linear):
            def forward(self, x):  # HERE
                return x, super().forward(x)

        def make(shape, classes):
            return Net(shape[0], classes)
        """,
        "gives a tuple; a tensor, one row a sample, is right",
        "forward",
    ),
    "model_has_too_few_outputs": a_model(
        "def make(shape, classes):\n    return nn.Linear(shape[0], classes - 1)\n",
        "puts out (1, 9) for one sample of 'digits', which has 10 classes; (1, 10) is right",
    ),
    "model_looks_at_numbers": a_model(
        """
        class Net(nn.Linear):
            def forward(self, x):
                x = super().forward(x)
                return x if x.sum() > 0 else -x  # HERE

        def make(shape, classes):
            return Net(shape[0], classes)
        """,
        "data-dependent control flow",
        "forward",
    ),
    # --- a partition
    "partition_is_short": a_partition("return labels[1:]", "it gives 1436, from 0 to 9 (make in"),
    "partition_is_of_floats": a_partition("return labels / 3", "what it gives is no array of whole numbers"),
    "partition_is_nothing": a_partition("pass", "what it gives is no array of whole numbers"),
    "partition_is_a_map": a_partition("return [[0, 1], [2]]", "what it gives is no array of whole numbers"),
    "partition_has_another_client": a_partition("return labels % 5", "client from 0 to 3, or -1 for none"),
    "partition_raises": a_partition("return labels.owner  # HERE", "failed (AttributeError: 'numpy.ndarray' object"),
    # --- a data set
    "dataset_is_nothing": a_dataset("def make(clients):  # HERE\n    pass\n", "gives a NoneType; a Dataset is right"),
    "dataset_raises": a_dataset("def make(clients):\n    return open('no')  # HERE\n", "failed (FileNotFoundError"),
    "dataset_is_of_arrays": a_dataset(
        f"{COST}def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x.numpy(), y, x, y, 2, cost)\n",
        "gives x as a ndarray; a tensor is right",
    ),
    "dataset_has_float_labels": a_dataset(
        f"{COST}def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x, y.float(), x, y, 2, cost)\n",
        "gives y of shape (40,) in torch.float32; one torch.int64 a sample is right",
    ),
    "dataset_lacks_a_label": a_dataset(
        f"{COST}def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x, y[1:], x, y, 2, cost)\n",
        "gives 40 rows of x and 39 of y; as many, at least one, is right",
    ),
    "dataset_has_more_labels": a_dataset(
        f"{COST}def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x, y + 1, x, y, 2, cost)\n",
        "gives y from 1 to 2; 0 to 1 is right",
    ),
    "dataset_has_other_tests": a_dataset(
        f"{COST}def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x, y, x[:, :1], y, 2, cost)\n",
        "x of (2,) and test_x of (1,); the same shape is right",
    ),
    "dataset_has_no_loss": a_dataset(
        f"def make(clients):  # HERE\n    {GOOD}\n    return Dataset(x, y, x, y, 2, None)\n",
        "gives loss as a NoneType; a function is right",
    ),
    "dataset_has_a_loss_over_all": a_dataset(
        f"def cost(output, y):  # HERE\n    return nn.functional.cross_entropy(output, y)\n\n"
        f"def make(clients):\n    {GOOD}\n    return Dataset(x, y, x, y, 2, cost)\n",
        "gives the shape () for one sample; one number a sample, (1,), is right",
        "cost",
    ),
    "dataset_has_a_loss_that_raises": a_dataset(
        f"def cost(output, y):\n    return output[y]['loss']  # HERE\n\n"
        f"def make(clients):\n    {GOOD}\n    return Dataset(x, y, x, y, 2, cost)\n",
        "which its loss cannot take (IndexError",
        "cost",
    ),
    "dataset_prepares_wrongly": a_dataset(
        f"{COST}def ready(x, dtype):\n    return x.to(dtype).pixels  # HERE\n\n"
        f"def make(clients):\n    {GOOD}\n    return Dataset(x, y, x, y, 2, cost, prepare=ready)\n",
        "AttributeError: 'Tensor' object has no attribute 'pixels'",
        "ready",
    ),
    "dataset_augments_wrongly": a_dataset(
        f"{COST}def noisy(x, key):\n    return x + x.new_zeros(7)  # HERE\n\n"
        f"def make(clients):\n    {GOOD}\n    return Dataset(x, y, x, y, 2, cost, augment=noisy)\n",
        "RuntimeError: The size of tensor",
        "noisy",
    ),
    # --- the learning rate, and legs that do not come back
    "rate_is_a_word": Case(
        "def make(round):  # HERE\n    return 'much'\n", "gives a str in round 0; a number", field="lr_schedule"
    ),
    "rate_falls_below_zero": Case(
        "def make(round):  # HERE\n    return 1 - round\n", "gives -1 in round 2; a number, 0", field="lr_schedule"
    ),
    "rate_raises_later": Case(
        "def make(round):\n    return [1, 1][round]  # HERE\n", "failed (IndexError: list index", field="lr_schedule"
    ),
    "failures_are_a_number": Case(
        "def make():  # HERE\n    return 0.5\n", "gives float; a Failing is right", field="failures"
    ),
    "policy_is_a_word": Case(
        "def make():  # HERE\n    return 'skip'\n", "gives str; a Policy is right", field="on_failure"
    ),
}


@pytest.fixture
def module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Case, str]:
    """(the module's name, the case, the place that the line has to name)."""
    name = f"wrong_{request.param}"
    case = CASES[request.param]
    text = HEAD + dedent(case.text)
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    here = [number for number, line in enumerate(text.splitlines(), 1) if "HERE" in line]
    assert len(here) <= 1
    return name, case, f"{name}.py, line {here[0]}" if here else name


def check(line: str, name: str, case: Case, place: str) -> None:
    """One line, of the field, that names the user's file and function, and what is wrong."""
    assert "\n" not in line
    assert len(line) < 500
    assert case.says in line, line
    assert place in line, line
    assert case.function in line.replace(name, ""), line  # the factory is in the spec: `name:make`
    assert line.startswith((f"{case.field}: ", f"{case.function} in {name}.py, line ")), line


@pytest.mark.parametrize("module", CASES, indirect=True)
def test_a_mistake_ends_in_one_line_that_names_it(module: tuple[str, Case, str], tmp_path: Path) -> None:
    name, case, place = module
    with pytest.raises(BadInput) as error:
        baton.run(
            Setting(**{**case.world, "rounds": 4, "eval_every": 4, case.field: f"{name}:make{case.spec}"}),
            tmp_path / "runs",
            device="cpu",
            quiet=True,
        )
    check(str(error.value), name, case, place)


# --- from the command line


SAID = ("syntax_error", "raises", "forgets_to_average", "trains_at_a_client_that_is_not", "model_is_nothing")
FLAGS = ["-R", "4", "--eval-every", "4", "--device", "cpu", "-q", "--runs", "r"]


def words(name: str, case: Case) -> list[str]:
    given = {**case.world, case.field: f"{name}:make{case.spec}"}
    return [*(f"--{key.replace('_', '-')}={value}" for key, value in given.items()), *FLAGS]


@pytest.mark.parametrize("module", SAID, indirect=True)
def test_the_command_line_says_so_too(
    module: tuple[str, Case, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, case, place = module
    monkeypatch.setattr(sys, "argv", ["baton", "run", *words(name, case)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("baton: ")
    assert said.endswith("\n")
    check(said.removeprefix("baton: ").removesuffix("\n"), name, case, place)


@pytest.mark.parametrize("module", ["raises_in_a_helper"], indirect=True)
def test_without_a_traceback_in_a_process_of_its_own(module: tuple[str, Case, str], tmp_path: Path) -> None:
    """And the module is found where the command was typed."""
    name, case, place = module
    command = [sys.executable, "-m", "baton", "run", *words(name, case)]
    where = {**os.environ, "PYTHONPATH": str(Path(baton.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=where, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    check(done.stderr.removeprefix("baton: ").removesuffix("\n"), name, case, place)


@pytest.mark.parametrize("module", ["model_looks_at_numbers"], indirect=True)
def test_other_commands_blame_the_users_line_too(
    module: tuple[str, Case, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model is used in many places; wherever it fails, it is its own line that is told."""
    name, case, place = module
    monkeypatch.setattr(sys, "argv", ["baton", "constants", "-m", f"{name}:make", "-d", "digits"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    check(capsys.readouterr().err.removeprefix("baton: ").removesuffix("\n"), name, case, place)


# --- what is right stays right


def test_a_registered_algorithms_mistake_is_ours_and_seen_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not put down to the user, and nothing of it is hidden."""
    space: dict[str, object] = {}
    text = (
        HEAD + "def make():\n    def round(state, order, sites):\n        return 1 / 0\n    return Algorithm(round)\n"
    )
    exec(compile(text, "<ours>", "exec"), space)
    monkeypatch.setitem(ALGORITHMS, "broken", space["make"])
    with pytest.raises(ZeroDivisionError):
        baton.run(Setting(**QUADRATICS, algorithm="broken"), tmp_path, device="cpu", quiet=True)


RIGHT = f"""{HEAD}
def scaffold():
    \"\"\"As the registered one, written without care for memory: shifts are what was sent, less what is kept.\"\"\"
    def round(state, order, sites):
        x, c = state.model, state.server
        reply = sites.train(x, order, sent=c)
        direction = {{n: (x[n].unsqueeze(1) - y) / (sites.now.lr.view(-1, 1, 1) * sites.now.local_steps)
                     for n, y in reply.x.items()}}
        share = len(order) / sites.now.clients
        new = {{n: c[n] + share * (d.mean(1) - c[n]) for n, d in direction.items()}}
        return State({{n: leaf.mean(1) for n, leaf in reply.x.items()}}, new)
    def zeros(x, now=None):
        return {{n: torch.zeros_like(leaf) for n, leaf in x.items()}}
    def begin(kept, sent):
        return {{n: sent[n] - leaf for n, leaf in kept.items()}}
    return Algorithm(round, server=zeros, local=Local(zeros, begin, lambda kept, sent, leg: leg.direction))


def same(*, copied: bool):
    \"\"\"The shift is what clients keep, or a copy of it; they add to what they kept.\"\"\"
    def round(state, order, sites):
        x = state.model
        for client in order:
            x = sites.train(x, client).x
        return State(x)
    def init(x):
        return {{n: torch.full_like(leaf, 0.01) for n, leaf in x.items()}}
    def begin(kept, sent):
        return {{n: leaf.clone() for n, leaf in kept.items()}} if copied else kept
    def end(kept, sent, leg):
        return {{n: 0.5 * leaf + 0.1 * leg.direction[n] for n, leaf in kept.items()}}
    return Algorithm(round, local=Local(init, begin, end))


def nothing_kept():
    \"\"\"Clients do what they are told, and keep nothing.\"\"\"
    def round(state, order, sites):
        sent = {{n: torch.ones_like(leaf) for n, leaf in state.model.items()}}
        return State({{n: leaf.mean(1) for n, leaf in sites.train(state.model, order, sent=sent).x.items()}})
    return Algorithm(round, local=Local(lambda x: {{}}, lambda kept, sent: sent, lambda kept, sent, leg: kept))


def all_shifted():
    def round(state, order, sites):
        shift = {{n: torch.ones_like(leaf) for n, leaf in state.model.items()}}
        return State({{n: leaf.mean(1) for n, leaf in sites.train(state.model, order, shift=shift).x.items()}})
    return Algorithm(round)


def shapes():
    \"\"\"Looks at shapes, which are not the model's where a round is only counted.\"\"\"
    def round(state, order, sites):
        x = sites.train(state.model, order).x["x"]
        return State({{"x": x.reshape(len(x), 3, 3).mean(1)}})
    return Algorithm(round)


def chosen():
    \"\"\"Trains at clients of its own choice, and turns the order round.\"\"\"
    def round(state, order, sites):
        return State(sites.train(state.model, Cohort((order.index[:, 0] + 1) % sites.now.clients)).x)
    return Algorithm(round, order=lambda state, order, now: order.flip(1))


class Callable:
    def __call__(self, state, order, sites):
        return State({{n: leaf.mean(1) for n, leaf in sites.train(state.model, order).x.items()}})


def an_object():
    return Algorithm(Callable())
"""


@pytest.fixture
def right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_is_right.py").write_text(RIGHT)
    monkeypatch.syspath_prepend(tmp_path)


def trained(path: Path, spec: str, **more: object) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    settings = [Setting(**{**QUADRATICS, "algorithm": spec, "rounds": 5, "seed": seed, **more}) for seed in (1, 2)]
    runs = baton.run(settings, path, device="cpu", quiet=True)
    made = [load_file(path / run.setting.run_id / "state.safetensors") for run in runs]
    return {name: torch.stack([each[name] for each in made]) for name in made[0]}


@pytest.mark.usefixtures("right")
@pytest.mark.parametrize(
    ("mine", "other", "more"),
    [
        ("scaffold", "scaffold", {}),
        ("same:copied=true", "mine_is_right:same:copied=false", {**DIGITS, "lr": 0.05}),  # in C a shift is written over
        ("same:copied=true", "mine_is_right:same:copied=false", {}),
        ("nothing_kept", "mine_is_right:all_shifted", {}),
        ("nothing_kept", "mine_is_right:all_shifted", {**DIGITS, "lr": 0.05}),
        ("shapes", "parallel", {}),
        ("an_object", "parallel", {}),
    ],
)
def test_what_a_user_does_right_is_let_through(mine: str, other: str, more: dict[str, object], tmp_path: Path) -> None:
    one, two = (trained(tmp_path / str(i), s, **more) for i, s in enumerate((f"mine_is_right:{mine}", other)))
    for name, leaf in two.items():
        if name in one:
            torch.testing.assert_close(one[name], leaf, rtol=1e-5, atol=1e-6)
    assert one.keys() & two.keys()


@pytest.mark.usefixtures("right")
def test_an_order_and_clients_of_its_own_choice_are_let_through(tmp_path: Path) -> None:
    assert trained(tmp_path / "r", "mine_is_right:chosen")


def test_failures_are_told_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be is refused when it is made."""
    (tmp_path / "no_failures.py").write_text("def make():\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=r"failures: 'no_failures:make' failed \(ZeroDivisionError: .* line 2\)"):
        failing("no_failures:make")


def test_where_nothing_is_the_users_own_an_error_is_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever called: their lines on the way to it are no reason to blame them."""

    def gone(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("baton.store.Store.finish", gone)
    assert not Setting(**QUADRATICS).theirs
    with pytest.raises(OSError, match="no space left"):
        baton.run(Setting(**QUADRATICS, rounds=2), tmp_path, device="cpu", quiet=True)
