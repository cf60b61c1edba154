"""Searches, alignments and streams where there is no torch at all, nor what else is heavy."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

SCRIPT = """
import sys
for name in ("torch", "numba", "lightning", "matplotlib"):
    sys.modules[name] = None  # importing it raises
sys.path.insert(0, sys.argv[1])

from ssnt.arrays import NUMPY
from ssnt.decode import SearchOptions, Stream, StreamOptions, align, decode, log_likelihood, open_streams, sample
from ssnt.dp import AlignmentDistribution
from ssnt.errors import ModelError
from ssnt.pipeline import SearchSettings, Streamed, StreamSettings, TextStream, Transduction
from ssnt.pipeline import arriving_text, inputs, pairs, prediction_lines, results, settings, streaming, text_stream
from table_scorer import TableScorer, make_batch

scorer, sources = TableScorer(0, NUMPY), [[4, 5, 6], [5]]
for search in ("marginal", "path", "online"):
    found = decode(scorer, sources, search, SearchOptions(nbest=2))
    assert [len(one) for one in found] == [2, 2], found
batch = make_batch(sources, NUMPY, targets=[[4, 5], [3]])
assert len(align(scorer, batch)) == 2 and log_likelihood(scorer, batch).shape == (2,)
assert len(sample(scorer, batch, 3)[0]) == 3
streams = open_streams(scorer, 2, StreamOptions(beam=4))
streams.push([4, None])
streams.load_state_dict(streams.state_dict())
assert len(streams.finish()) == 2
stream = Stream(scorer)
stream.push([4, 5])
print(stream.finish().is_complete)
try:
    decode(object(), sources)
except ModelError as error:
    assert "expected a model such as an SSNT, or a scorer, got object" in str(error)
try:
    from ssnt.decode import ModelScorer
except ImportError as error:
    assert "torch" in str(error)
assert not [name for name, module in sys.modules.items() if name.partition(".")[0] == "torch" and module]
"""


def test_all_searches_run_without_torch():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(TESTS)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() in ("True", "False")
