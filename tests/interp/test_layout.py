"""Packing: each string in a slot of its own, lengths by their exact law, a batch a function of (seed, step)."""

import collections
import math

import numpy as np
import pytest

from interp.grammars import DyckGrammar
from interp.training.layout import ALIGN, IGNORE, Layout, pack
from interp.worlds.dyck import batches as layout_module
from interp.worlds.dyck.batches import CompleteStrings, Corpus, Prefixes, place

DYCK = DyckGrammar(2, 4)
SOURCES = {
    "default": CompleteStrings(DYCK, 32, 2, 26),
    "one": CompleteStrings(DYCK, 1, 2, 26),
    "three": CompleteStrings(DYCK, 3, 2, 26),
    "hundred": CompleteStrings(DYCK, 100, 2, 26),
    "window": CompleteStrings(DyckGrammar(3, 3, 0.3, 0.2), 17, 7, 21),
    "single-length": CompleteStrings(DYCK, 5, 6, 6),
    "empty-allowed": CompleteStrings(DYCK, 9, 0, 8),
    "only-empty": CompleteStrings(DYCK, 4, 0, 0),
    "flat": CompleteStrings(DyckGrammar(1, 1), 6, 2, 10),
    "prefix": Prefixes(DYCK, 8, 28),
    "prefix-odd": Prefixes(DyckGrammar(3, 2), 5, 13),
    "prefix-one": Prefixes(DYCK, 3, 1),
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
complete = pytest.mark.parametrize(
    "source",
    [s for s in SOURCES.values() if isinstance(s, CompleteStrings)],
    ids=[n for n, s in SOURCES.items() if isinstance(s, CompleteStrings)],
)


def read_back(layout, inputs, targets, grammar):
    """Literal inverse of `place` for one batch: [(what the model reads after START, its targets)]."""
    found = []
    for i in range(len(layout.start)):
        row, column = divmod(int(layout.start[i]), layout.width)
        cells = range(column, column + int(layout.capacity[i]) + 1)
        assert inputs[row, column] == grammar.start
        goals = []
        for c in cells:
            if targets[row, c] == IGNORE:
                break
            goals.append(int(targets[row, c]))
        assert all(targets[row, c] == IGNORE for c in cells[len(goals) :])
        read = [int(inputs[row, c]) for c in cells[1 : len(goals)]]
        assert all(inputs[row, c] == grammar.pad for c in cells[max(1, len(goals)) :])
        found.append((read, goals))
    return found


def strings_of(source, seed, steps):
    """[step][string] -> brackets, read back from the packed targets."""
    layout = source.layout()
    inputs, targets = source.draw(seed, steps)
    end = isinstance(source, CompleteStrings)
    result = []
    for x, y in zip(inputs, targets, strict=True):
        batch = []
        for read, goals in read_back(layout, x, y, source.grammar):
            assert read == goals[:-1]  # a shift by one: each bracket is read after it was predicted
            assert (goals[-1] == source.grammar.end) == end
            batch.append(tuple(goals[:-1] if end else goals))
        result.append(batch)
    return result


# ---- slots ---------------------------------------------------------------------------------------


def check_layout(layout: Layout):
    assert layout.width % 4 == 0
    assert layout.width >= ALIGN
    assert layout.rows * layout.width % ALIGN == 0
    assert layout.rows >= 2
    taken = {}
    for i, (start, capacity) in enumerate(zip(layout.start, layout.capacity, strict=True)):
        row, column = divmod(int(start), layout.width)
        assert column + capacity + 1 <= layout.width, "a slot runs over the end of its row"
        for offset in range(int(capacity) + 1):
            cell = (row, column + offset)
            assert cell not in taken, "two slots overlap"
            taken[cell] = (i, offset)
    for row in range(layout.rows):
        for column in range(layout.width):
            segment, position = taken.get((row, column), (-1, 0))
            assert layout.segment[row, column] == segment
            assert layout.position[row, column] == position


def check_visible(layout: Layout):
    visible = layout.visible
    assert visible.shape == (layout.rows, 1, layout.width, layout.width)
    for row in range(layout.rows):
        for query in range(layout.width):
            for key in range(layout.width):
                mine, theirs = layout.segment[row, query], layout.segment[row, key]
                expected = key == query or (mine == theirs >= 0 and key <= query)
                assert visible[row, 0, query, key] == expected, (row, query, key)


@every_source
def test_slots_lie_in_one_row_and_do_not_overlap(source):
    layout = source.layout()
    assert len(layout.start) == source.batch
    check_layout(layout)


@pytest.mark.parametrize("name", ["three", "window", "only-empty", "prefix-odd", "prefix-one"])
def test_a_position_sees_its_own_string_so_far_and_itself(name):
    check_visible(SOURCES[name].layout())


@pytest.mark.parametrize("trial", range(30))
def test_any_capacities_can_be_packed(trial):
    rng = np.random.default_rng(trial)
    capacity = rng.integers(0, rng.integers(1, 40), size=rng.integers(1, 60))
    layout = pack(capacity, int(capacity.max()) + 1)
    check_layout(layout)
    np.testing.assert_array_equal(layout.capacity, capacity)


@pytest.mark.parametrize("batch", [32, 64, 100])
def test_almost_every_position_has_a_target(batch):
    _, targets = CompleteStrings(DYCK, batch, 2, 26).draw(0, range(40))
    assert (targets != IGNORE).mean() > 0.85


# ---- place ---------------------------------------------------------------------------------------


def by_hand():
    """Two rows of 8: slots of 3, 5 and 2 brackets; string 1 is shorter than its slot."""
    start = np.array([0, 8, 4])
    segment = np.full((2, 8), -1)
    segment[0, :4], segment[1, :6], segment[0, 4:7] = 0, 1, 2
    position = np.zeros((2, 8), dtype=np.int64)
    position[0, :4], position[1, :6], position[0, 4:7] = range(4), range(6), range(3)
    return Layout(2, 8, np.array([3, 5, 2]), start, segment, position)


def test_place_complete_strings_by_hand():
    g = DYCK  # ids: ( 0, ) 1, [ 2, ] 3, START 4, END 5, PAD 6
    strings = np.array([[[0, 1, 9, 9], [2, 0, 1, 3], [2, 3, 9, 9]]])
    inputs, targets = place(by_hand(), strings, np.array([[2, 4, 2]]), g)
    x = IGNORE
    assert inputs.tolist() == [[[4, 0, 1, 6, 4, 2, 3, 6], [4, 2, 0, 1, 3, 6, 6, 6]]]
    assert targets.tolist() == [[[0, 1, 5, x, 2, 3, 5, x], [2, 0, 1, 3, 5, x, x, x]]]


def test_place_prefixes_by_hand():
    strings = np.array([[[0, 2, 9], [0, 1, 2], [2, 9, 9]]])
    inputs, targets = place(by_hand(), strings, np.array([[2, 3, 1]]), DYCK, end=False)
    x = IGNORE
    assert inputs.tolist() == [[[4, 0, 6, 6, 4, 6, 6, 6], [4, 0, 1, 6, 6, 6, 6, 6]]]
    assert targets.tolist() == [[[0, 2, x, x, 2, x, x, x], [0, 1, 2, x, x, x, x, x]]]


@every_source
def test_packed_strings_read_back_as_legal_strings(source):
    grammar = source.grammar
    for batch in strings_of(source, 3, range(20)):
        assert len(batch) == source.batch
        for string in batch:
            row = np.array([string or (grammar.pad,)])
            grammar.validate(row)
            if isinstance(source, CompleteStrings):
                assert source.min_length <= len(string) <= source.max_length
                if string:
                    assert grammar.depth(row)[0, -1] == 0
            else:
                assert len(string) == source.length


@every_source
def test_all_that_is_not_a_string_is_padding(source):
    layout = source.layout()
    inputs, targets = source.draw(1, range(5))
    outside = layout.segment < 0
    assert (inputs[:, outside] == source.grammar.pad).all()
    assert (targets[:, outside] == IGNORE).all()


# ---- draw is a function of (seed, step) ----------------------------------------------------------


@every_source
def test_a_slice_of_steps_equals_those_steps_alone(source):
    inputs, targets = source.draw(7, range(20))
    assert inputs.shape == targets.shape == (20, source.layout().rows, source.layout().width)
    for steps in (range(5, 11), range(19, 20), range(0, 1)):
        x, y = source.draw(7, steps)
        np.testing.assert_array_equal(x, inputs[steps.start : steps.stop])
        np.testing.assert_array_equal(y, targets[steps.start : steps.stop])


@pytest.mark.parametrize("name", ["default", "window", "prefix"])
def test_seeds_and_steps_differ(name):
    drawn = [SOURCES[name].draw(seed, range(3))[0] for seed in (0, 1, 2, 4294967295)]
    batches = {d[step].tobytes() for d in drawn for step in range(3)}
    assert len(batches) == 12


def test_batches_come_from_the_training_stream_keyed_by_step(monkeypatch):
    asked = []

    def spy(seed, stream, step=0):
        asked.append((seed, stream, step))
        return generator(seed, stream, step)

    generator = layout_module.generator
    monkeypatch.setattr(layout_module, "generator", spy)
    SOURCES["default"].draw(3, range(4, 7))
    SOURCES["prefix"].draw(3, range(4, 6))
    assert asked == [(3, "train", 4), (3, "train", 5), (3, "train", 6), (3, "train", 4), (3, "train", 5)]


# ---- the law -------------------------------------------------------------------------------------


@complete
def test_counts_of_lengths_are_systematic(source):
    """In every batch the count of a length is one of the two whole numbers beside B p; in the mean B p."""
    lengths, probs = source.grammar.length_distribution(source.min_length, source.max_length)
    expected = dict(zip(lengths.tolist(), (source.batch * probs).tolist(), strict=True))
    steps = 300
    total = collections.Counter()
    for batch in strings_of(source, 11, range(steps)):
        counts = collections.Counter(len(s) for s in batch)
        assert set(counts) <= set(expected)
        for length, mean in expected.items():
            assert abs(counts[length] - mean) < 1 + 1e-9, (length, counts[length], mean)
        total.update(counts)
    for length, mean in expected.items():
        part = mean % 1
        deviation = math.sqrt(part * (1 - part) / steps)
        assert abs(total[length] / steps - mean) <= 5 * deviation + 1e-9, length  # absolute: rounding of B p


@complete
def test_a_string_never_outgrows_its_slot_and_slots_are_no_longer_than_needed(source):
    """String i comes from quantiles [i/B, (i+1)/B): literal walk over the cumulative law."""
    lengths, probs = source.grammar.length_distribution(source.min_length, source.max_length)
    edges = np.cumsum(probs)
    longest = [0] * source.batch
    for batch in strings_of(source, 5, range(200)):
        for i, string in enumerate(batch):
            longest[i] = max(longest[i], len(string))
    for i, capacity in enumerate(source.layout().capacity):
        end = (i + 1) / source.batch * (1 - 1e-9)
        needed = next((int(n) for n, e in zip(lengths, edges, strict=True) if e >= end))
        assert capacity == needed
        assert longest[i] <= capacity


def enumerate_complete(grammar, low, high):
    """{string: probability} by running the process with END, keeping low..high brackets."""
    found, level = {}, {(): (1.0, ())}
    for size in range(high + 1):
        following = {}
        for string, (p, stack) in level.items():
            q = grammar.open_prob if stack else 1 - grammar.end_prob
            q = 0.0 if len(stack) == grammar.max_depth else q
            if not stack and low <= size:
                found[string] = p * grammar.end_prob
            for t in range(grammar.num_types):
                if q:
                    following[(*string, 2 * t)] = (p * q / grammar.num_types, (*stack, t))
            if stack:
                following[(*string, 2 * stack[-1] + 1)] = (p * (1 - q), stack[:-1])
        level = following
    total = sum(found.values())
    return {string: p / total for string, p in found.items()}


@pytest.mark.parametrize(
    ("grammar", "bounds"), [(DyckGrammar(2, 2), (2, 4)), (DyckGrammar(1, 3, 0.3, 0.7), (2, 8))], ids=str
)
def test_strings_follow_the_exact_law(grammar, bounds):
    law = enumerate_complete(grammar, *bounds)
    source = CompleteStrings(grammar, 7, *bounds)
    drawn = [s for batch in strings_of(source, 2, range(600)) for s in batch]
    counts = collections.Counter(drawn)
    assert set(counts) <= set(law)
    for length in {len(s) for s in law}:
        strings = [s for s in law if len(s) == length]
        share = np.array([law[s] for s in strings])
        seen = np.array([counts[s] for s in strings])
        expected = share / share.sum() * seen.sum()
        assert expected.min() > 5
        statistic, freedom = ((seen - expected) ** 2 / expected).sum(), len(strings) - 1
        assert abs(statistic - freedom) <= 5 * math.sqrt(2 * max(freedom, 1)) * (freedom > 0)


def test_prefixes_follow_the_exact_law():
    grammar = DyckGrammar(2, 2, 0.4)
    drawn = [s for batch in strings_of(Prefixes(grammar, 10, 3), 2, range(400)) for s in batch]
    counts = collections.Counter(drawn)
    strings = sorted(counts)
    expected = len(drawn) * np.exp(grammar.log_prob(np.array(strings), mode="prefix"))
    assert expected.sum() == pytest.approx(len(drawn))
    seen = np.array([counts[s] for s in strings])
    statistic, freedom = ((seen - expected) ** 2 / expected).sum(), len(strings) - 1
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom)


# ---- one corpus for all seeds --------------------------------------------------------------------

CORPORA = {
    "complete": Corpus(CompleteStrings(DYCK, 7, 2, 10), 200),
    "one string a batch": Corpus(CompleteStrings(DYCK, 1, 4, 6), 30),
    "empty strings": Corpus(CompleteStrings(DYCK, 3, 0, 4), 25),
    "prefixes": Corpus(Prefixes(DYCK, 4, 5), 52),
    "a batch beyond the corpus": Corpus(Prefixes(DYCK, 8, 5), 15),
}
every_corpus = pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA.keys())


def stream_of(corpus, seed, steps):
    """The strings that a seed is given, one after the other."""
    layout, (inputs, targets) = corpus.layout(), corpus.draw(seed, steps)
    end = isinstance(corpus.base, CompleteStrings)
    out = []
    for x, y in zip(inputs, targets, strict=True):
        for read, goals in read_back(layout, x, y, corpus.base.grammar):
            assert read == goals[:-1]
            out.append(tuple(goals))
            assert (goals[-1] == corpus.base.grammar.end) == end
    return out


@every_corpus
def test_an_epoch_reads_each_string_of_the_corpus_once(corpus):
    """In each seed's own order, and in another at the next epoch; each batch has the lengths of the whole."""
    rows, lengths = corpus.strings
    end = (corpus.base.grammar.end,) if isinstance(corpus.base, CompleteStrings) else ()
    held = collections.Counter((*row[:n].tolist(), *end) for row, n in zip(rows, lengths, strict=True))
    count, orders = len(rows), set()
    for seed in (0, 5):
        stream = stream_of(corpus, seed, range(-(-3 * count // corpus.base.batch)))
        for epoch in range(3):
            read = stream[epoch * count : (epoch + 1) * count]
            assert collections.Counter(read) == held
            orders.add(tuple(read))
    assert len(orders) == 6 or len(held) < 4 or corpus.epoch == 1  # three strings have six orders: two may be the same


@every_corpus
def test_a_corpus_has_as_many_tokens_as_were_asked_for(corpus):
    """To the end of the string that reaches them, less what fills no batch. Brackets and END count, START does not."""
    lengths, batch = corpus.strings[1] + isinstance(corpus.base, CompleteStrings), corpus.base.batch
    assert len(lengths) == corpus.epoch * batch
    if corpus.epoch > 1:
        assert corpus.tokens + lengths.max() > lengths.sum() > corpus.tokens - batch * lengths.max()
    assert all(row[n:].tolist() == [DYCK.pad] * (len(row) - n) for row, n in zip(*corpus.strings, strict=True))


@every_corpus
def test_a_slice_of_a_corpus_is_those_steps_alone(corpus):
    inputs, targets = corpus.draw(7, range(12))
    for steps in (range(5, 9), range(11, 12)):
        for part, whole in zip(corpus.draw(7, steps), (inputs, targets), strict=True):
            np.testing.assert_array_equal(part, whole[steps.start : steps.stop])
    outside = corpus.layout().segment < 0
    assert (inputs[:, outside] == DYCK.pad).all()
    assert (targets[:, outside] == IGNORE).all()


def test_a_corpus_follows_the_law():
    """Lengths by their exact law."""
    base = CompleteStrings(DYCK, 10, 2, 26)
    lengths, probs = DYCK.length_distribution(2, 26)
    drawn = Corpus(base, 100_000).strings[1]
    shares = np.array([(drawn == n).mean() for n in lengths])
    error = np.sqrt(probs * (1 - probs) / len(drawn))
    assert (np.abs(shares - probs) < 5 * error).all()
    assert 10_000 < len(drawn) < 11_500  # 9.4 tokens each, about


def test_each_batch_of_a_corpus_has_the_lengths_of_the_whole():
    """String i of a batch comes from the part of lengths that lies between the shares i / B and (i + 1) / B."""
    corpus = Corpus(CompleteStrings(DYCK, 6, 2, 26), 4000)
    parts = corpus.strings[1].reshape(6, -1)
    assert (parts[:-1].max(1) <= parts[1:].min(1)).all()
    layout = corpus.layout()
    inputs, targets = corpus.draw(2, range(corpus.epoch))
    lengths = [[len(read) for read, _ in read_back(layout, x, y, DYCK)] for x, y in zip(inputs, targets, strict=True)]
    for part, read in zip(parts, np.array(lengths).T, strict=True):
        assert sorted(read) == sorted(part)
    assert layout.rows * layout.width < 6 * 27  # a corpus is packed as fresh strings are
