"""One thread inside, what was set before outside."""

import pytest
import torch

from interp.threads import one_thread


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_block_runs_on_one_thread():
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_an_error_gives_the_threads_back():
    with pytest.raises(ValueError, match="x"), one_thread():
        raise ValueError("x")
    assert torch.get_num_threads() == 2


def test_a_function_keeps_its_name_and_may_be_called_again():
    @one_thread()
    def used(extra=0):
        return torch.get_num_threads() + extra

    assert (used(), used(extra=5)) == (1, 6)
    assert used.__name__ == "used"
    assert torch.get_num_threads() == 2
