"""What clients send and get, checked and documented.

Limits are settings of a service, so a field names its limit (:class:`AtMost`): the check reads it from the context of
the validation, and the OpenAPI description has its value filled in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ssnt.serve.problems import mistakes
from ssnt.serve.settings import Limits

_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")

_KEYS = {"string": "maxLength", "array": "maxItems", "integer": "maximum"}
_LIMIT = "x-limit"
_DEFAULTS = Limits()


@dataclass(frozen=True)
class AtMost:
    """The length of a text or list, or a number, is at most a limit of the service.

    Attributes:
        limit: The name of the limit.
    """

    limit: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks the value with the limits in the context."""
        return core_schema.with_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Leaves a mark where the limit belongs."""
        return {**handler(schema), _LIMIT: self.limit}

    def _check(self, value: Any, info: core_schema.ValidationInfo[Any]) -> Any:
        most = getattr((info.context or {}).get("limits", _DEFAULTS), self.limit)
        size = value if isinstance(value, int) else len(value)
        if size > most:
            what = "is" if isinstance(value, int) else "has length"
            raise PydanticCustomError("at_most", f"{what} {_short(size)}, more than {self.limit} ({most})")
        return value


def _short(size: int) -> str:
    """A number that a client has chosen; its digits may be as many as a message may have."""
    return str(size) if size < 10**9 else "10^9 or more"


class OneLine:
    """A text is a line: it has no control character and no line end."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks the text."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Says so."""
        return {**handler(schema), "pattern": f"^[^{_CONTROL.pattern[1:-1]}]*$"}

    def _check(self, value: str) -> str:
        if found := _CONTROL.search(value):
            where, code = found.start(), f"U+{ord(found[0]):04X}"
            raise PydanticCustomError("one_line", f"has the control character {code} at {where}; a text is one line")
        return value


def with_limits(schema: Any, limits: Limits) -> Any:
    """A JSON schema with the values of the limits in the places of their marks."""
    if isinstance(schema, list):
        return [with_limits(one, limits) for one in schema]
    if not isinstance(schema, dict):
        return schema
    filled = {key: with_limits(value, limits) for key, value in schema.items() if key != _LIMIT}
    if isinstance(schema.get(_LIMIT), str):
        filled[_KEYS[schema["type"]]] = getattr(limits, schema[_LIMIT])
    return filled


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_mode_override="serialization")


Text = Annotated[str, Field(min_length=1), OneLine(), AtMost("max_text_length")]
Tag = Annotated[str, Field(min_length=1), OneLine(), AtMost("max_tag_length")]
Tags = Annotated[list[Tag], AtMost("max_tags")]
ModelField = Annotated[
    str | None,
    Field(max_length=200, description="Which model; may be left out if there is but one.", examples=[None]),
]
Chance = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Input(_Sent):
    """A text with its tags."""

    text: Text = Field(description="The text.", examples=["zocken"])
    tags: Tags | None = Field(None, description="Its tags, for a model that has them.", examples=[[]])


def _kind_of_input(value: Any) -> str | None:
    if isinstance(value, str):
        return "(text)"
    return "(object)" if isinstance(value, dict | Input) else None


TextOrInput = Annotated[
    Annotated[Text, pydantic.Tag("(text)")] | Annotated[Input, pydantic.Tag("(object)")],
    pydantic.Discriminator(
        _kind_of_input,
        custom_error_type="text_or_input",
        custom_error_message='expected a text, or an object such as {"text": "zocken", "tags": []}',
    ),
]


class Pair(_Sent):
    """An input with its output."""

    input: Text = Field(description="The input.", examples=["zocken"])
    output: Annotated[str, OneLine(), AtMost("max_text_length")] = Field(
        description="The output.", examples=["gezockt"]
    )
    tags: Tags | None = Field(None, description="The tags of the input, for a model that has them.", examples=[[]])


class TransduceRequest(_Sent):
    """Texts to be transduced."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"inputs": ["zocken"]},
                {"inputs": ["zocken", {"text": "kaufen"}], "nbest": 3, "posteriors": True},
            ]
        }
    )

    model: ModelField = None
    inputs: Annotated[list[TextOrInput], Field(min_length=1), AtMost("max_inputs")] = Field(
        description="The inputs; a string is a text without tags."
    )
    search: Literal["marginal", "path", "online"] | None = Field(
        None, description="How the best output is looked for; by default as the model was trained to be used."
    )
    beam: Annotated[int, Field(ge=1), AtMost("max_beam")] | None = Field(
        None, description="How many hypotheses are kept."
    )
    nbest: Annotated[int, Field(ge=1), AtMost("max_nbest")] = Field(1, description="How many outputs are wanted.")
    length_normalisation: Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)] | None = Field(
        None, description="Outputs are ranked by log_prob / length ** length_normalisation."
    )
    max_length: Annotated[int, Field(ge=1), AtMost("max_output_length")] | None = Field(
        None, description="Longest output in symbols."
    )
    end: Literal["any", "last"] | None = Field(None, description="Where a path may end.")
    copy_unknown: bool | None = Field(
        None, description="Whether an unknown symbol is replaced by the source symbol it was written at."
    )
    alignments: bool = Field(True, description="Whether to say where each symbol was written.")
    posteriors: bool = Field(False, description="Whether to give the posterior alignment matrices.")


class AlignRequest(_Sent):
    """Pairs to be aligned."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pairs": [{"input": "zocken", "output": "gezockt"}], "posteriors": False}]}
    )

    model: ModelField = None
    pairs: Annotated[list[Pair], Field(min_length=1), AtMost("max_inputs")] = Field(description="The pairs.")
    link_threshold: Chance | None = Field(None, description="How probable a link must be to join segments.")
    posteriors: bool = Field(True, description="Whether to give the posterior alignment matrices.")


class ScoreRequest(_Sent):
    """Pairs to be scored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pairs": [{"input": "zocken", "output": "gezockt"}]}]})

    model: ModelField = None
    pairs: Annotated[list[Pair], Field(min_length=1), AtMost("max_inputs")] = Field(description="The pairs.")


class Unusable(_Answer):
    """What stands in the place of an input that cannot be used."""

    error: str


class Output(_Answer):
    """One output."""

    text: str
    symbols: list[str]
    log_prob: float | None = Field(description="The log probability; null if the output is impossible.")
    probability: float
    score: float | None = Field(description="What outputs are ranked by.")
    is_complete: bool = Field(description="Whether the output ended, rather than reached the longest length.")
    alignment: list[int] | None = Field(
        description="The source position, counted from 0, at which each symbol was written, the end symbol last."
    )
    path_log_prob: float | None = Field(description="The log probability of output and alignment together.")
    delays: list[int] | None = Field(description="How many source symbols had been read for each symbol.")
    posteriors: list[list[float]] | None = Field(
        description="P(symbol j was written at source position i): a row for each symbol, the end symbols counted."
    )


class Transduced(_Answer):
    """The outputs for one input."""

    source_symbols: list[str]
    outputs: list[Output] = Field(description="Best first.")
    unknown: int = Field(description="How many source symbols the model does not know.")
    unknown_tags: int = Field(description="How many tags it does not know; they were left out.")


class TransduceAnswer(_Answer):
    """A result for each input, in their order."""

    model: str
    results: list[Transduced | Unusable]


class Segment(_Answer):
    """A source span and the target span that it wrote, each from the first position to one beyond the last."""

    source: Annotated[list[int], Field(min_length=2, max_length=2)]
    target: Annotated[list[int], Field(min_length=2, max_length=2)]


class Aligned(_Answer):
    """How a pair aligns."""

    source_symbols: list[str]
    target_symbols: list[str]
    log_prob: float | None
    probability: float
    alignment: list[int]
    path_log_prob: float | None
    segments: list[Segment]
    posteriors: list[list[float]] | None
    unknown: int
    unknown_tags: int


class AlignAnswer(_Answer):
    """A result for each pair, in their order."""

    model: str
    results: list[Aligned | Unusable]


class Scored(_Answer):
    """How probable an output is, summed over all alignments."""

    log_prob: float | None = Field(description="null if the output is impossible.")
    probability: float
    tokens: int = Field(description="How many symbols were predicted, the end symbol counted.")
    unknown: int
    unknown_source: int
    unknown_tags: int


class ScoreAnswer(_Answer):
    """A result for each pair, in their order."""

    model: str
    results: list[Scored | Unusable]


class SearchDefaults(_Answer):
    """How the model searches if nothing else is asked for."""

    search: str
    beam: int
    nbest: int


class WorkedExample(_Answer):
    """Something to try."""

    text: str
    tags: list[str]
    output: str | None


class ModelInfo(_Answer):
    """A model that is served."""

    name: str
    kind: str = Field(description="Such as `biSSNT+`; for several models as one, `ensemble`.")
    members: list[str] = Field(description="The kinds of an ensemble's models; empty for a single one.")
    is_online: bool = Field(description="Whether it can write while it reads.")
    has_alignment: bool
    has_tags: bool
    tags: list[str]
    tag_sets: list[list[str]] = Field(description="The tag sets, where there is a model for each.")
    source_unit: str
    target_unit: str
    searches: list[str]
    search: SearchDefaults
    example: WorkedExample | None


class ModelsAnswer(_Answer):
    """The models and what may be asked of them."""

    models: list[ModelInfo]
    limits: dict[str, float]


class ProblemDetails(BaseModel):
    """What is wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


class Open(_Sent):
    """Opens a stream."""

    type: Literal["open"]
    model: ModelField = None
    tags: Tags | None = None
    beam: Annotated[int, Field(ge=1), AtMost("max_beam")] | None = None
    max_delay: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    emit_threshold: Chance | None = None
    merge: Literal["sum", "max"] = "sum"
    end: Literal["any", "last"] = "last"
    lattice: bool = False
    token: Annotated[str, Field(max_length=1000)] | None = None


class Push(_Sent):
    """Gives a stream text to read."""

    type: Literal["push"]
    text: Annotated[str, OneLine(), AtMost("max_text_length")]


class Finish(_Sent):
    """Ends the input of a stream."""

    type: Literal["finish"]


Message = Annotated[Open | Push | Finish, Field(discriminator="type")]

SentT = TypeVar("SentT")


def parse(kind: pydantic.TypeAdapter[SentT], body: bytes | str, limits: Limits) -> SentT:
    """Reads what a client has sent.

    Raises:
        ProblemError: It is not JSON, or not what was expected; what is wrong where.
    """
    try:
        return kind.validate_json(body, context={"limits": limits})
    except pydantic.ValidationError as error:
        raise mistakes(error.errors(include_url=False, include_input=False, include_context=False)) from None
