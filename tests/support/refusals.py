"""What an error of this project says itself, without what it relays of a library's."""

from pathlib import Path

from interp.errors import InterpError

PROJECT = Path(__file__).parents[2]


def own_words(error: BaseException) -> str:
    """The message of an error, but for the words of an error of a library that it came from.

    A library may well name the option that a test looks for: then the test would pass without the refusal it is about.
    """
    text, cause = str(error), error.__cause__ if isinstance(error, InterpError) else None
    while cause is not None:
        if _of_a_library(cause):
            for line in filter(None, map(str.strip, str(cause).splitlines())):
                text = text.replace(line[:200], "...")
        cause = cause.__cause__
    return text


def _of_a_library(error: BaseException) -> bool:
    """Whether it was raised in a file of nobody's here: neither the project's nor its tests'."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return False
    path = Path(frame.tb_frame.f_code.co_filename)
    return not path.is_relative_to(PROJECT) or "site-packages" in path.parts  # the environment may lie inside
