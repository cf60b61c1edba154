import os
import signal
import threading

import pytest

from ssnt.interrupts import Stop, StopNow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_stops_at_once(number: int):
    before = signal.getsignal(number)
    stop = Stop()
    with stop.on_signals():
        os.kill(os.getpid(), number)
        assert stop.is_requested
        with pytest.raises(StopNow):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_where_nothing_is_lost_the_first_signal_stops_at_once():
    stop = Stop()
    with stop.on_signals():
        with pytest.raises(StopNow), stop.giving_up_allowed():
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_requested
        with pytest.raises(StopNow), stop.giving_up_allowed():
            raise AssertionError("there was a request already")


def test_signals_are_taken_back_from_whoever_took_them():
    stop = Stop()
    with stop.on_signals():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_requested


def test_outside_of_the_main_thread_signals_stay_as_they_are():
    handlers = []

    def run() -> None:
        with Stop().on_signals():
            Stop().listen()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
