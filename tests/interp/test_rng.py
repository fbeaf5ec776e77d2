"""Counter-based randomness: numbers depend on (seed, stream, step) and on nothing else."""

import itertools

import numpy as np
import pytest

from interp.errors import RequestError
from interp.rng import MAX_SEED, check_seed, generator

KEYS = list(itertools.product([0, 1, 2, 40, MAX_SEED], ["train", "held-out", "init/embed.W_E"], [0, 1, 2**40]))


def numbers(key):
    return tuple(generator(*key).random(4))


def test_numbers_do_not_depend_on_the_order_of_drawing():
    forward = {key: numbers(key) for key in KEYS}
    np.random.seed(0)
    generator(3, "train").random(1000)
    assert {key: numbers(key) for key in reversed(KEYS)} == forward


def test_every_key_has_its_own_numbers():
    drawn = [x for key in KEYS for x in numbers(key)]
    assert len(set(drawn)) == len(drawn)


def test_step_defaults_to_zero_and_blocks_continue():
    assert numbers((5, "train")) == numbers((5, "train", 0))
    one = generator(5, "train")
    np.testing.assert_array_equal(np.concatenate([one.random(3), one.random(5)]), generator(5, "train").random(8))


def test_streams_are_uniform_and_uncorrelated():
    draws = np.stack([generator(seed, "train", step).random(500) for seed in range(8) for step in range(5)])
    assert abs(draws.mean() - 0.5) < 5 * (1 / 12) ** 0.5 / draws.size**0.5
    correlation = np.corrcoef(draws)
    assert np.abs(correlation[~np.eye(len(draws), dtype=bool)]).max() < 5.5 / 500**0.5  # absolute: standard errors


@pytest.mark.parametrize("bad", [-1, MAX_SEED + 1, 1.0, "1", None, True, np.float32(2)], ids=repr)
def test_bad_seeds_are_refused(bad):
    for use in (check_seed, lambda seed: generator(seed, "train")):
        with pytest.raises(RequestError, match="not a whole number from 0 to 4294967295") as error:
            use(bad)
        assert repr(bad) in str(error.value)


def test_numpy_seeds_are_whole_numbers_too():
    assert check_seed(np.int64(7)) == 7
    assert type(check_seed(np.int64(7))) is int
    assert numbers((np.uint32(7), "train")) == numbers((7, "train"))
