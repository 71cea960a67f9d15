"""SIGTERM and SIGHUP become an exception that lets a command clean up."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from potato_ray.cli.termination import Terminated, Termination


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_raised_once_and_its_handler_given_back(number: int, code: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Terminated) as terminated, Termination():
        os.kill(os.getpid(), number)
    assert terminated.value.exit_code == code
    assert signal.getsignal(number) == before


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    with Termination():
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)


def interrupted_by(number: int) -> None:
    """What a waiting call of Ray makes of the exception of a signal's handler."""
    try:
        os.kill(os.getpid(), number)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None


def test_an_interrupt_that_ray_made_of_it_is_known_for_what_it_was() -> None:
    with pytest.raises(Terminated), Termination():
        interrupted_by(signal.SIGTERM)


def test_a_signal_whose_exception_got_lost_is_found_at_the_next_sleep() -> None:
    with Termination() as termination:
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Terminated):
            termination.sleep(0.0)


def test_another_exit_stays_what_it_is() -> None:
    with pytest.raises(SystemExit), Termination():
        sys.exit(1)


def test_ctrl_c_stays_what_it_is() -> None:
    with pytest.raises(KeyboardInterrupt) as interrupt, Termination():
        raise KeyboardInterrupt
    assert not isinstance(interrupt.value, Terminated)


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Termination() as termination:
            os.kill(os.getpid(), signal.SIGHUP)
            termination.check()
    finally:
        signal.signal(signal.SIGHUP, before)
