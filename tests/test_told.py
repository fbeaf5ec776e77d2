"""The search for numbers that a text tells: what counts as told, and when results hold it."""

import pytest

from told import below, fits, prose, told


@pytest.mark.parametrize(
    ("text", "kind", "parts", "scale"),
    [
        ("it is 0.972 [0.968, 0.976] (n=8 seeds)", "interval", ("0.972", "0.968", "0.976"), 1),
        ("| 2.38 | [1.89, 2.87] |", "interval", ("2.38", "1.89", "2.87"), 1),
        ("falls by 3.1 % [2.2, 4.0]", "interval", ("3.1", "2.2", "4.0"), 100),
        ("12 of 160 [0.04, 0.13]", "count", ("12", "160", "0.04", "0.13"), 1),
        ("37 % of them", "number", ("37",), 100),
        ("-.07 here", "number", ("-.07",), 1),
        ("| 40/0/0/0 |", "verdicts", ("40/0/0/0",), 1),
    ],
)
def test_what_is_told_is_read(text, kind, parts, scale):
    (one,) = told(prose(text))
    assert (one.kind, one.parts, one.scale) == (kind, parts, scale)


@pytest.mark.parametrize(
    "text",
    [
        "trained for 1,500 steps of 32",
        "section 4.1, Figs. 2.5 and 2.6",
        "`lr=0.01`",
        "[a](b-0.5.md)",
        "Intervals are 95 %",
        "Makkuva et al. 2024 (arXiv 2402.04161)",
    ],
)
def test_settings_and_references_are_not_told(text):
    assert not told(prose(text))


@pytest.mark.parametrize(
    ("written", "number", "scale", "so"),
    [
        ("0.05", 0.0549, 1, True),
        ("0.05", 0.0551, 1, False),
        (".754", -0.7538, 1, True),
        ("37", 0.374, 100, True),
        ("37", 0.376, 100, False),
        ("5e-15", 5.3e-15, 1, True),
        ("5e-15", 5.6e-15, 1, False),
        ("1,234", 1234, 1, True),
        ("1", True, 1, False),
        ("0", None, 1, False),
    ],
)
def test_a_number_fits_at_its_digits(written, number, scale, so):
    assert fits(written, number, scale) is so


def test_a_row_is_looked_up_among_its_familys_results():
    results = {"families": {"standard": {"x": 0.25}, "standard, prefixes": {"x": 0.75}}}
    assert [found for about in ("standard", "standard, layer 1") for found in below(results, about)] == [
        {"x": 0.25}
    ] * 2
    assert below(results, "standard, prefixes, layer 0") == [{"x": 0.75}]
    assert below(results, "standards") == []
