"""`TokenizerVocabulary`: a tokenizer of transformers where a grammar stands."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import RequestError, quoted
from interp.vocabulary import padded

Ints = NDArray[np.int64]


class TokenizerVocabulary:
    """A tokenizer in the place of a grammar: names of ids, special tokens, and reading of texts.

    `read` gives the ids of one text with the special tokens that the tokenizer, or its bridge, puts around it.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, read: Callable[[str], Iterable[int]]):
        self.tokenizer, self.vocab_size, self._read = tokenizer, vocab_size, read
        self.start: int | None = tokenizer.bos_token_id if tokenizer.cls_token_id is None else tokenizer.cls_token_id
        self.end: int | None = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
        # Where START or END also pads, as in GPT-2's tokenizer, an id does not tell which of them it is.
        self.pad: int | None = None if tokenizer.pad_token_id in (self.start, self.end) else tokenizer.pad_token_id
        self.has_start = self.start is not None

    @classmethod
    def alone(cls, tokenizer: Any, vocab_size: int) -> "TokenizerVocabulary":
        """Of a model without a bridge; texts begin with START, as TransformerLens has them, if there is one."""

        def read(text: str) -> list[int]:
            ids, start = list(tokenizer(text)["input_ids"]), tokenizer.bos_token_id
            return ids if start is None or ids[:1] == [start] else [start, *ids]

        return cls(tokenizer, vocab_size, read)

    def check_known(self, text: str) -> None:
        """Raise `RequestError` for a text with a part that the tokenizer does not know."""
        tokenizer, inner = self.tokenizer, getattr(getattr(self.tokenizer, "backend_tokenizer", None), "model", None)
        name = getattr(tokenizer, "unk_token", None) or getattr(inner, "unk_token", None)
        if name is None or str(name) in text or not getattr(tokenizer, "is_fast", False):
            return
        told = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        unknown = tokenizer.convert_tokens_to_ids(str(name))
        if unknown in told["input_ids"]:
            begin, end = told["offset_mapping"][told["input_ids"].index(unknown)]
            raise RequestError(
                f"text {quoted(text)} position {begin}: {quoted(text[begin:end])} is not a token of this model's "
                "tokenizer"
                f", which reads it as {name}; pass token ids to have it so"
            )

    @cached_property
    def vocab(self) -> tuple[str, ...]:
        return tuple(map(str, self.tokenizer.convert_ids_to_tokens(range(self.vocab_size))))

    @cached_property
    def token_ids(self) -> dict[str, int]:
        """Id of each token by its name; the first where several have one name."""
        return {name: i for i, name in reversed(list(enumerate(self.vocab)))}

    def read(self, text: str) -> list[int]:
        """Ids of one text. START stands first once: a text that begins with it is given no second one.

        Raises `RequestError` for a text with a part that the tokenizer does not know.
        """
        self.check_known(text)
        of_encoder = self.tokenizer.cls_token_id is not None
        ids = [int(i) for i in (self.tokenizer(text)["input_ids"] if of_encoder else self._read(text))]
        if self.start is None or ids[:2] != [self.start] * 2:
            return ids
        own = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids[1:] if own[:1] == [self.start] and ids[1 : 1 + len(own)] == own else ids

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """[batch, longest], PAD on the right."""
        return padded([self.read(text) for text in ([texts] if isinstance(texts, str) else texts)], self.pad)

    def to_dict(self) -> dict[str, Any]:
        """No file of ours holds a tokenizer's rules: `RequestError`."""
        raise RequestError(
            "this model's texts are read by a tokenizer, which no checkpoint of ours holds: keep its folder, or load "
            "it with vocab=[names of its ids]"
        )
