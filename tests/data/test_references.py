"""Examples that ask the same are pooled."""

import subprocess
import sys

import pytest

from ssnt.data.references import pool_references
from ssnt.errors import DataError
from ssnt.types import Example


def test_pooling_keeps_the_order_of_first_appearance():
    examples = [
        Example("read", "R IY D", line=1),
        Example("a", "AH", line=2),
        Example("read", "R EH D", line=3),
        Example("a", "EY", line=4),
        Example("read", "R IY D", line=5),
    ]
    pooled = pool_references(examples)
    assert [(one.source, one.references, one.indices, one.line) for one in pooled] == [
        ("read", ("R IY D", "R EH D"), (0, 2, 4), 1),
        ("a", ("AH", "EY"), (1, 3), 2),
    ]


def test_tags_keep_examples_apart_as_a_set():
    examples = [
        Example("gehen", "ging", ("V", "PST")),
        Example("gehen", "geht", ("V", "PRS")),
        Example("gehen", "gieng", ("PST", "V")),
    ]
    pooled = pool_references(examples)
    assert [(one.tags, one.references) for one in pooled] == [
        (("V", "PST"), ("ging", "gieng")),
        (("V", "PRS"), ("geht",)),
    ]


def test_normalisation_decides_what_is_the_same():
    examples = [Example("Cafe\u0301 1", "X1"), Example("café 2", "x2"), Example("CAFÉ 3", "Y")]
    assert len(pool_references(examples)) == 3
    pooled = pool_references(examples, lowercase=True, digits_to_hash=True)
    assert [(one.source, one.references) for one in pooled] == [("Cafe\u0301 1", ("x#", "y"))]


def test_a_missing_target_is_named():
    with pytest.raises(DataError, match="line 7: expected a target for the source 'b', got none"):
        pool_references([Example("a", "x", line=6), Example("b", line=7)])
    with pytest.raises(DataError, match="example 1: expected a target"):
        pool_references([Example("b")])


def test_nothing_heavy_is_imported():
    script = (
        "import sys, ssnt.data as data\n"
        "assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules), 'the package itself brings something'\n"
        "data.pool_references, data.read_examples\n"
        "assert 'numpy' not in sys.modules\n"
        "[getattr(data, name) for name in data.__all__]\n"
        "print(sorted({'torch', 'tokenizers', 'regex'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import ssnt.data

    assert set(ssnt.data.__all__) <= set(dir(ssnt.data))
    with pytest.raises(AttributeError, match=r"module 'ssnt\.data' has no attribute 'nothing'"):
        _ = ssnt.data.nothing
