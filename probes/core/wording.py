"""How summaries and pictures say how many; `interp.numbers` says how much."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """ "1 model", "2 models"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
