"""What a symbol is: text to symbols, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from ssnt.data.formats import resolve_format
from ssnt.data.text import normalise
from ssnt.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ssnt.config import DataConfig, UnitName
    from ssnt.types import Example


class Unit(Protocol):
    """Splits text into symbols and joins symbols into text.

    Text is in NFC when it is split. ``join(split(text)) == text``, except that for tokens any whitespace becomes single
    spaces.
    """

    @property
    def name(self) -> UnitName:
        """What the settings call it."""

    def split(self, text: str) -> list[str]:
        """The symbols of a text."""

    def join(self, symbols: Sequence[str]) -> str:
        """The text of symbols."""

    def state(self) -> dict[str, Any]:
        """All that :func:`unit_from_state` needs to make it again, as JSON values."""


@dataclass(frozen=True, slots=True)
class Characters:
    """A symbol is a code point of NFC text."""

    @property
    def name(self) -> UnitName:
        """What the settings call it."""
        return "characters"

    def split(self, text: str) -> list[str]:
        """The code points of a text."""
        return list(text)

    def join(self, symbols: Sequence[str]) -> str:
        """The text of symbols."""
        return "".join(symbols)

    def state(self) -> dict[str, Any]:
        """All that is needed to make it again."""
        return {"unit": self.name}


@dataclass(frozen=True, slots=True)
class Graphemes:
    """A symbol is a grapheme cluster: what a reader takes for one letter, marks and joiners included."""

    @property
    def name(self) -> UnitName:
        """What the settings call it."""
        return "graphemes"

    def split(self, text: str) -> list[str]:
        """The grapheme clusters of a text."""
        if text.isascii() and "\r" not in text:  # \r\n is the only cluster in ASCII
            return list(text)
        clusters: list[str] = _find_clusters()(text)
        return clusters

    def join(self, symbols: Sequence[str]) -> str:
        """The text of symbols."""
        return "".join(symbols)

    def state(self) -> dict[str, Any]:
        """All that is needed to make it again."""
        return {"unit": self.name}


@dataclass(frozen=True, slots=True)
class Tokens:
    """A symbol is what stands between whitespace."""

    @property
    def name(self) -> UnitName:
        """What the settings call it."""
        return "tokens"

    def split(self, text: str) -> list[str]:
        """The tokens of a text."""
        return text.split()

    def join(self, symbols: Sequence[str]) -> str:
        """The tokens with single spaces between them."""
        return " ".join(symbols)

    def state(self) -> dict[str, Any]:
        """All that is needed to make it again."""
        return {"unit": self.name}


class Bpe:
    """A symbol is a byte-pair unit: a frequent piece of a word, with the space before it if it begins the word.

    Every symbol is a piece of the text itself. A character that the training texts did not have is a symbol of its own,
    so that nothing is lost by splitting.

    Args:
        tokenizer: A byte-pair model as the ``tokenizers`` library describes it in JSON.

    Raises:
        DataError: It is no such description, or one of more than :func:`train_bpe` makes.
    """

    def __init__(self, tokenizer: str) -> None:
        self._json = tokenizer
        self._tokenizer = _load_tokenizer(tokenizer)

    @property
    def name(self) -> UnitName:
        """What the settings call it."""
        return "bpe"

    def split(self, text: str) -> list[str]:
        """The byte-pair units of a text."""
        return _pieces(text, self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def split_many(self, texts: Sequence[str]) -> list[list[str]]:
        """The byte-pair units of many texts, with all cores."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [_pieces(text, one.offsets) for text, one in zip(texts, encodings, strict=True)]

    def join(self, symbols: Sequence[str]) -> str:
        """The text of symbols."""
        return "".join(symbols)

    def state(self) -> dict[str, Any]:
        """All that is needed to make it again."""
        return {"unit": self.name, "tokenizer": json.loads(self._json)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bpe) and self._json == other._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __reduce__(self) -> tuple[type[Bpe], tuple[str]]:
        # so that processes that train together can be given one
        return Bpe, (self._json,)


_SIMPLE: dict[str, type[Characters | Graphemes | Tokens]] = {
    "characters": Characters,
    "graphemes": Graphemes,
    "tokens": Tokens,
}
_NAMES = (*_SIMPLE, "bpe")
# No text holds this, so that an unknown character is never mistaken for a known symbol.
_UNKNOWN = "\uffff"
# A word with the space before it; longer stretches of whitespace are pieces of their own.
_WORDS = r"\s?\S+|\s+"
# What the library can do besides, and what is not wanted: all of it changes symbols, or drops some.
_TOKENIZER_OPTIONS = ("truncation", "padding", "normalizer", "post_processor", "added_tokens")
_MODEL_OPTIONS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback")
_UNUSABLE = "the description of the byte-pair units cannot be used"


def make_unit(name: UnitName) -> Characters | Graphemes | Tokens:
    """Makes a unit that needs no training.

    Raises:
        DataError: There is no such unit, or it has to be learnt: see :func:`train_bpe`.
    """
    if name == "bpe":
        raise DataError("byte-pair units are learnt from texts: expected train_bpe(texts, size)")
    if name not in _SIMPLE:
        raise DataError(f"unknown unit {name!r}: expected one of {', '.join(_NAMES)}")
    return _SIMPLE[name]()


def unit_from_state(state: object) -> Unit:
    """Makes a unit again from what its ``state`` returned.

    Raises:
        DataError: It is not what a unit's state looks like.
    """
    if not isinstance(state, Mapping) or "unit" not in state:
        raise DataError(f"a unit's state must be an object with the key 'unit', got {str(state)[:80]}")
    if state["unit"] != "bpe":
        return make_unit(state["unit"])
    if "tokenizer" not in state:
        raise DataError("the state of byte-pair units must have the key 'tokenizer'")
    return Bpe(json.dumps(state["tokenizer"], ensure_ascii=False, separators=(",", ":")))


def train_bpe(texts: Iterable[str], size: int) -> Bpe:
    """Learns byte-pair units; the same texts give the same units.

    Args:
        texts: What to learn from, in NFC.
        size: How many units; every character of the texts is one, even if there are more.

    Raises:
        DataError: ``size`` is less than 1, or there is no text.
    """
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import Split
    from tokenizers.trainers import BpeTrainer

    if size < 1:
        raise DataError(f"the number of byte-pair units must be at least 1, got {size}")
    tokenizer = Tokenizer(BPE(unk_token=_UNKNOWN, fuse_unk=False))
    tokenizer.pre_tokenizer = Split(Regex(_WORDS), behavior="isolated")
    trainer = BpeTrainer(vocab_size=size + 1, show_progress=False, special_tokens=[_UNKNOWN])
    tokenizer.train_from_iterator(_nonempty(texts), trainer)
    described = json.loads(tokenizer.to_str())
    # Special tokens are looked for in the text; the unknown one is only what the model falls back on.
    described["added_tokens"] = []
    return Bpe(json.dumps(described, ensure_ascii=False, separators=(",", ":")))


def units_for(data: DataConfig, read: Callable[[], Iterable[Example]]) -> tuple[Unit, Unit]:
    """The units of both sides that the settings ask for; byte-pair units are learnt.

    Args:
        data: What a symbol is, and how text is normalised.
        read: Begins to read the training examples; called once for every side that has to be learnt.
    """
    form = resolve_format(data)

    def texts(*sides: str) -> Iterator[str]:
        for example in read():
            for side in sides:
                text = getattr(example, side) or ""
                yield normalise(text, lowercase=data.lowercase, digits_to_hash=data.digits_to_hash)

    if data.share_vocab and form.source_unit == form.target_unit == "bpe":
        shared = train_bpe(texts("source", "target"), data.bpe_size)
        return shared, shared
    return (
        train_bpe(texts("source"), data.bpe_size) if form.source_unit == "bpe" else make_unit(form.source_unit),
        train_bpe(texts("target"), data.bpe_size) if form.target_unit == "bpe" else make_unit(form.target_unit),
    )


def _nonempty(texts: Iterable[str]) -> Iterator[str]:
    is_empty = True
    for text in texts:
        is_empty = False
        yield text
    if is_empty:
        raise DataError("byte-pair units cannot be learnt from no text at all")


def _load_tokenizer(description: str) -> Tokenizer:
    from tokenizers import Tokenizer

    _check_description(description)
    try:
        tokenizer: Tokenizer = Tokenizer.from_str(description)
    except Exception as error:  # the library raises nothing more precise
        raise DataError(f"the description of the byte-pair units cannot be read: {error}") from error
    return tokenizer


def _check_description(description: str) -> None:
    """Refuses what loses text, is random, or makes the library panic when it splits, which is no error to catch."""
    try:
        described = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the description of the byte-pair units cannot be read: {error}") from None
    model = _object(described, "model")
    words = _object(described, "pre_tokenizer")
    found = {
        **{name: described.get(name) or None for name in _TOKENIZER_OPTIONS},
        **{f"model.{name}": model.get(name) or None for name in _MODEL_OPTIONS},
    }
    for name, value in found.items():
        if value is not None:
            raise DataError(f"{_UNUSABLE}: {name}: expected nothing, got {value!r:.80}")
    kinds = (model.get("type"), words.get("type"), words.get("behavior"))
    if kinds != ("BPE", "Split", "Isolated"):
        raise DataError(f"{_UNUSABLE}: expected a model BPE of words that are split and isolated, got {kinds!r:.80}")
    unknown = model.get("unk_token")
    if not isinstance(unknown, str) or unknown not in _object(model, "vocab", "model."):
        raise DataError(f"{_UNUSABLE}: model.unk_token: expected one of model.vocab, got {unknown!r:.80}")


def _object(value: Any, name: str, inside: str = "") -> dict[str, Any]:
    member = value.get(name) if isinstance(value, dict) else None
    if not isinstance(member, dict):
        raise DataError(f"{_UNUSABLE}: {inside}{name}: expected an object, got {member!r:.80}")
    return member


def _pieces(text: str, offsets: Iterable[tuple[int, int]]) -> list[str]:
    return [text[begin:end] for begin, end in offsets]


@lru_cache(maxsize=1)
def _find_clusters() -> Any:
    import regex

    return regex.compile(r"\X").findall
