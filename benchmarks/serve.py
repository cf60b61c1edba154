"""``ssnt serve`` under load: requests that are batched against the same server without, and many streams at a time.

The model is that of ``ssnt quickstart``, trained once and kept in ``benchmarks/.cache``. Requests have one word of the
embedded sample each; every answer, and the output of every stream, is compared with what the library says. Clients are
in this process and ask the next question when the last one is answered; the servers have processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load import Answer, Server, SocketClient, ask_all, open_socket, post, run, served
from options import parser
from results import ROOT, Figure, Recorder, more

import ssnt
from ssnt import Transducer
from ssnt.data.sample import sample_path

CACHE = ROOT / "benchmarks" / ".cache" / "serve"
TEXTS = 20  # different ones that streams read
LOG_PROB_TOLERANCE = 1e-4  # how far a batch may move a log probability: its sums are done in another order


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        clients: Clients that ask at the same time.
        turns: Turns that each server takes.
        requests: Requests of a turn with batching.
        alone: Requests of a turn without.
        streams: Streams at the same time.
        symbols: Symbols that each reads in a turn.
        stream_turns: Turns with a client that does not read, and as many without.
        epochs: Passes over the sample in training; None: as many as `ssnt quickstart` makes.
    """

    clients: int = 64
    turns: int = 10
    requests: int = 2000
    alone: int = 100
    streams: int = 500
    symbols: int = 40
    stream_turns: int = 3
    epochs: int | None = None


QUICK = Sizes(clients=8, turns=1, requests=40, alone=8, streams=20, symbols=6, stream_turns=1, epochs=1)


def trained_model(place: Path, epochs: int | None) -> Path:
    """The model of ``ssnt quickstart``."""
    if not (place / "config.yaml").exists():
        command = [sys.executable, "-m", "ssnt", "quickstart", "--out", str(place), "--overwrite"]
        command += [] if epochs is None else ["--epochs", str(epochs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return place


def sample_words() -> list[str]:
    """The verbs of the embedded sample."""
    lines = [line for split in ("train", "dev", "test") for line in sample_path(split).read_text("utf-8").splitlines()]
    return [line.split("\t")[0] for line in lines]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


# --------------------------------------------------------------------------------------------------------- requests


@dataclass
class Asked:
    """What one server has answered.

    Attributes:
        rates: Answers a second of each turn.
        seconds: How long each answer took.
        wrong: What was lost or not as the library says.
    """

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def is_right(answer: Answer, expected: dict[str, Any]) -> bool:
    """Whether an answer is what the library says."""
    if answer.status != 200:
        return False
    output = json.loads(answer.body)["results"][0]["outputs"][0]
    same = all(output[name] == expected[name] for name in ("text", "alignment", "is_complete"))
    log_prob = -math.inf if output["log_prob"] is None else output["log_prob"]
    return same and math.isclose(log_prob, expected["log_prob"], rel_tol=0, abs_tol=LOG_PROB_TOLERANCE)


def library_answers(transducer: Transducer, words: list[str]) -> dict[str, dict[str, Any]]:
    """What the library says about each word."""
    return {
        word: {
            "text": one.text,
            "alignment": list(one.alignment.positions),
            "is_complete": one.is_complete,
            "log_prob": one.log_prob,
        }
        for word, one in zip(words, transducer.transduce(words), strict=True)
    }


def take_turn(server: Server, words: list[str], clients: int, expected: dict[str, dict[str, Any]], into: Asked) -> None:
    """Asks a server about words, and then looks at what it has said."""
    requests = [post("/v1/transduce", json.dumps({"inputs": [word]}).encode()) for word in words]
    start = time.perf_counter()
    answers = run(ask_all(server.address, requests, clients))
    into.rates.append(len(words) / (time.perf_counter() - start))
    into.seconds += [one.seconds for one in answers]
    into.wrong += [
        f"{word}: {one.status} {one.body[:200]!r}"
        for word, one in zip(words, answers, strict=True)
        if not is_right(one, expected[word])
    ]


def requests(model: Path, place: Path, sizes: Sizes, recorder: Recorder) -> None:
    """Requests of many clients, with batching and without, turn by turn."""
    words = sample_words()
    expected = library_answers(Transducer.from_pretrained(model), words)
    chance = random.Random(1)
    together, alone = Asked(), Asked()
    with served(model, place / "together.log") as many, served(model, place / "alone.log", "--max-batch", "1") as one:
        for server in (many, one):
            run(ask_all(server.address, [post("/v1/transduce", b'{"inputs": ["zocken"]}')] * 8, 8))  # compiles
        for _ in range(sizes.turns):
            take_turn(many, chance.choices(words, k=sizes.requests), sizes.clients, expected, together)
            take_turn(one, chance.choices(words, k=sizes.alone), sizes.clients, expected, alone)
    found = Figure("batched", max(together.rates), "requests/s")
    other = Figure("--max-batch 1", max(alone.rates), "requests/s")
    note = f"batched turns {_range(together.rates)}, others {_range(alone.rates)} requests/s"
    recorder.add(more(f"{sizes.clients} clients, one word a request", found, other, 4, note=note))
    half, most = (percentile(together.seconds, share) * 1e3 for share in (0.5, 0.99))
    case = f"{sizes.clients} clients, time of an answer"
    note = f"the slowest of {len(together.seconds):,d} took {max(together.seconds) * 1e3:.0f} ms"
    recorder.add(
        more(case, Figure("99 of 100 within", most, "ms"), Figure("half within", half, "ms"), 10, "at most", note)
    )
    _add_wrong(recorder, "answers lost or not the library's", together.wrong + alone.wrong,
               len(together.seconds) + len(alone.seconds), "answers")  # fmt: skip


def _range(rates: Sequence[float]) -> str:
    return f"{min(rates):,.0f} to {max(rates):,.0f}"


def _add_wrong(recorder: Recorder, case: str, wrong: list[str], total: int, unit: str) -> None:
    for one in wrong[:5]:
        print(f"  WRONG {one}", flush=True)
    recorder.add(more(case, Figure("lost or wrong", len(wrong), unit), Figure("all", total, unit), 0, "at most"))


# ---------------------------------------------------------------------------------------------------------- streams


@dataclass(frozen=True)
class StreamTurn:
    """What streams did in one turn.

    Attributes:
        gaps: How long each push waited for its answer, in seconds, a list a stream.
        ends: When each stream had read all, in seconds from the begin.
        wrong: Outputs that are not the library's.
    """

    gaps: list[list[float]]
    ends: list[float]
    wrong: list[str]

    @property
    def all_gaps(self) -> list[float]:
        """Those of all streams."""
        return [gap for gaps in self.gaps for gap in gaps]


def stream_texts(symbols: int) -> list[str]:
    """Long words, made of others."""
    words = sample_words()
    return ["".join(words[100 * k : 100 * k + symbols])[:symbols] for k in range(TEXTS)]


def streamed(transducer: Transducer, text: str) -> str:
    """What the library makes of a stream."""
    stream = transducer.stream()
    return stream.push(text).committed + stream.finish().committed


async def stream_turn(clients: list[SocketClient], expected: dict[str, str]) -> StreamTurn:
    """Each client reads a text symbol by symbol, all at the same time."""
    texts = list(expected)
    begin = time.perf_counter()

    async def work(number: int, client: SocketClient) -> tuple[list[float], float, str]:
        text = texts[number % len(texts)]
        gaps, written, last = [], "", 0.0
        await client.ask(b'{"type": "open"}')
        for symbol in text:
            start = time.perf_counter()
            answer = await client.ask(json.dumps({"type": "push", "text": symbol}).encode())
            last = time.perf_counter()
            gaps.append(last - start)
            written += json.loads(answer).get("committed", "")
        written += json.loads(await client.ask(b'{"type": "finish"}')).get("committed", "")
        return gaps, last - begin, "" if written == expected[text] else f"{text}: {written}, not {expected[text]}"

    found = await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
    return StreamTurn([gaps for gaps, _, _ in found], [end for _, end, _ in found], [one for *_, one in found if one])


async def stuck_client(address: str) -> SocketClient:
    """A client with an open stream that sends and sends, and reads no answer."""
    client = await open_socket(address, buffer=4096)
    await client.ask(b'{"type": "open"}')
    await client.ask(b'{"type": "push", "text": "ab"}')
    await client.stop_reading(b'{"type": "push"}')  # a mistake each, which is answered and leaves the stream open
    return client


async def stream_turns(address: str, expected: dict[str, str], sizes: Sizes) -> dict[str, list[StreamTurn]]:
    """Turns without and with a client that does not read."""
    clients = [await open_socket(address) for _ in range(sizes.streams)]
    await stream_turn(clients, expected)  # compiles
    found: dict[str, list[StreamTurn]] = {"without": [], "with": []}
    for _ in range(sizes.stream_turns):
        found["without"].append(await stream_turn(clients, expected))
        stuck = await stuck_client(address)
        found["with"].append(await stream_turn(clients, expected))
        stuck.transport.abort()
        await asyncio.sleep(0.2)
    for client in clients:
        client.transport.close()
    return found


def streams(model: Path, place: Path, sizes: Sizes, recorder: Recorder) -> None:
    """Many streams, and a client among them that does not read."""
    transducer = Transducer.from_pretrained(model)
    expected = {text: streamed(transducer, text) for text in stream_texts(sizes.symbols)}
    with served(model, place / "streams.log") as server:
        found = run(stream_turns(server.address, expected, sizes))
    turns = found["without"]
    best = min(turns, key=lambda turn: max(turn.ends))
    gaps = best.all_gaps
    half, most = percentile(gaps, 0.5), percentile(gaps, 0.99)
    rate = len(gaps) / max(best.ends)
    case = f"{sizes.streams} streams, time from a symbol to its answer"
    note = f"99 of 100 within {most * 1e3:.0f} ms; {rate:,.0f} symbols/s in all"
    worst = Figure("the longest", max(gaps) * 1e3, "ms")
    recorder.add(more(case, worst, Figure("half within", half * 1e3, "ms"), 10, "at most", note))
    slowest, middle = max(best.ends), statistics.median(best.ends)
    case = f"{sizes.streams} streams, time for {sizes.symbols} symbols"
    recorder.add(more(case, Figure("the last stream", slowest, "s"), Figure("the median", middle, "s"), 1.5, "at most"))
    times = {name: min(statistics.mean(turn.all_gaps) for turn in turns) * 1e3 for name, turns in found.items()}
    longest = {name: min(max(turn.all_gaps) for turn in turns) * 1e3 for name, turns in found.items()}
    note = f"mean time of a symbol; the longest are {longest['with']:.0f} and {longest['without']:.0f} ms"
    case = f"{sizes.streams} streams beside a client that does not read"
    ours, other = (Figure(f"{name} it", times[name], "ms") for name in ("with", "without"))
    recorder.add(more(case, ours, other, 1.1, "at most", note))
    every = [turn for turns in found.values() for turn in turns]
    wrong = [one for turn in every for one in turn.wrong]
    _add_wrong(
        recorder, "streams whose output is not the library's", wrong, sum(len(turn.ends) for turn in every), "streams"
    )


PARTS = {"requests": requests, "streams": streams}


def main() -> None:
    takes = parser(__doc__)
    takes.add_argument("--model", type=Path, help="a model directory (default: that of ssnt quickstart, trained first)")
    takes.add_argument("--only", choices=list(PARTS), help="measure these, and keep the others' last figures")
    options = takes.parse_args()
    sizes = QUICK if options.quick else Sizes()
    recorder = Recorder("serve", quick=options.quick, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        home = place / "model" if options.quick else CACHE / ssnt.__version__
        model = options.model or trained_model(home, sizes.epochs)
        for name, measure in PARTS.items():
            if options.only in (None, name):
                measure(model, place, sizes, recorder)
    recorder.write(keep=options.only is not None)


if __name__ == "__main__":
    main()
