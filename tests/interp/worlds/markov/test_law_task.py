"""Training on the laws of answers: the loss by a loop, the strings it is of, and what is refused."""

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import SandboxTransformer
from interp.errors import InterpError
from interp.functional import stack_params
from interp.presets import check_read, make_recipe
from interp.rng import generator
from interp.training.task import TokenTask
from interp.worlds.markov import CausalGraphGrammar
from interp.worlds.markov.task import LawTask, make_task


def made(**options):
    recipe = make_recipe("causal-graph", options, steps=4, batch=5)
    return recipe, SandboxTransformer(recipe.config, recipe.grammar)


@pytest.mark.parametrize("order", [1, 2])
def test_the_loss_is_that_of_a_loop(order):
    """-sum_s pi(s | query) log f(s), mean over strings, each string alone."""
    recipe, template = made(order=order)
    models = [SandboxTransformer(recipe.config, recipe.grammar) for _ in range(2)]
    torch.manual_seed(5)
    for model in models:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.3)
    task = make_task(template, recipe, "cpu")
    assert isinstance(task, LawTask)
    params = stack_params([dict(model.named_parameters()) for model in models])
    batches = [task.draw(seed, range(2, 3)) for seed in (1, 2)]
    found = task(params, *(torch.from_numpy(np.stack(parts)[:, 0]) for parts in zip(*batches, strict=True)))
    for model, seed, loss in zip(models, (1, 2), found.tolist(), strict=True):
        tokens, kernel = recipe.grammar.draw_all(generator(seed, "train", 2), 5)
        total = 0.0
        for row, rows in zip(tokens, kernel, strict=True):
            code = sum(int(s) * 3**i for i, s in enumerate(reversed(row[-1 - order : -1])))
            logits = model(torch.from_numpy(row[None, :-1]))[0, -1].detach().double()
            total -= float((torch.from_numpy(rows[code]) * torch.log_softmax(logits, -1)).sum())
        assert_close(loss, total / 5, scale=2.0, dtype=torch.float32, ulps=200)


def test_laws_are_of_the_strings_that_are_drawn():
    grammar = CausalGraphGrammar(order=2, length=9)
    tokens, kernel = grammar.draw_all(np.random.default_rng(4), 50)
    laws = grammar.draw_laws(np.random.default_rng(4), 50)
    assert (grammar.draw(np.random.default_rng(4), 50) == tokens).all()
    assert (laws == kernel[np.arange(50), tokens[:, -3] * 3 + tokens[:, -2]]).all()


def test_drawn_answers_are_a_plain_task():
    recipe, template = made(answers="drawn")
    assert type(make_task(template, recipe, "cpu")) is TokenTask


@pytest.mark.parametrize(
    ("preset", "options", "said"),
    [
        ("markov", {"answers": "drawn"}, "answers='drawn'"),
        ("causal-graph", {"loss": "mse"}, "loss='mse' needs answers='drawn'"),
        ("causal-graph", {"answers": "both"}, "answers='both'"),
        ("causal-graph", {"width": 40}, "width=40: of block='disentangled' it follows from"),
        ("causal-graph", {"heads": "two"}, "heads='two'"),
    ],
)
def test_what_has_no_law_is_refused(preset, options, said):
    with pytest.raises(InterpError, match=said):
        check_read(make_recipe(preset, options, steps=2))


def test_the_width_follows_layers_heads_and_positions():
    config = make_recipe("causal-graph", {"layers": 1, "heads": 2, "n_ctx": 20}).config
    assert config.d_model == config.d_head == (3 + 20) * 3


@pytest.mark.slow
def test_the_graph_is_found():
    """After 800 steps most rows of the first layer weigh their parent most."""
    from interp import train_population

    population = train_population("causal-graph", seeds=[7], steps=800, workers=1)
    grammar = population.grammar
    tokens = torch.from_numpy(grammar.draw(np.random.default_rng(0), 100))
    _, cache = population[0].run_with_cache(tokens)
    mean = cache["pattern", 0][:, 0].mean(0).numpy()
    parents = grammar.parents_of(grammar.length + 1)[:, 0]
    rows = [i for i in np.flatnonzero(parents >= 0) if i < grammar.nodes]
    found = np.mean([mean[i, :i].argmax() == parents[i] for i in rows])
    by_chance = np.mean([1 / i for i in rows])
    assert found > 0.7 > 2 * by_chance
