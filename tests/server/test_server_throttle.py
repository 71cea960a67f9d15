"""Wrong keys make an address wait."""

from __future__ import annotations

import pytest
from clocks import Clock
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.server.throttle import Throttle, network_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_five_wrong_keys_make_an_address_wait_until_the_first_is_a_minute_old(clock) -> None:
    throttle = Throttle(clock)
    for _ in range(5):
        assert throttle.judge("10.0.0.1", right=False) == 0
        clock.now += 2
    assert throttle.judge("10.0.0.1", right=False) == 50
    clock.now += 50
    assert throttle.judge("10.0.0.1", right=False) == 0


def test_a_right_key_waits_too_and_other_addresses_do_not(clock) -> None:
    throttle = Throttle(clock)
    for _ in range(5):
        throttle.judge("10.0.0.1", right=False)
    assert throttle.judge("10.0.0.1", right=True) == 60
    assert throttle.judge("10.0.0.2", right=True) == 0


def test_waiting_guesses_do_not_lengthen_the_wait(clock) -> None:
    throttle = Throttle(clock)
    for _ in range(5):
        throttle.judge("a", right=False)
    clock.now += 59
    assert throttle.judge("a", right=False) == 1
    clock.now += 1
    assert throttle.judge("a", right=True) == 0


def test_right_keys_are_never_counted(clock) -> None:
    throttle = Throttle(clock)
    assert [throttle.judge("a", right=True) for _ in range(50)] == [0] * 50
    assert len(throttle) == 0


def test_an_address_whose_guesses_are_old_is_forgotten(clock) -> None:
    throttle = Throttle(clock)
    throttle.judge("a", right=False)
    clock.now += 61
    throttle.judge("a", right=True)
    assert len(throttle) == 0


def test_no_more_addresses_are_remembered_than_there_is_room_for(clock) -> None:
    throttle = Throttle(clock, addresses=3)
    for each in "abcd":
        throttle.judge(each, right=False)
    assert len(throttle) == 3


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_an_address_is_an_ipv4_host_or_an_ipv6_network(host, network) -> None:
    assert network_of(host) == network


@given(st.text())
def test_any_name_is_an_address_of_bounded_length(host) -> None:
    assert len(network_of(host)) <= 255


def test_addresses_that_were_only_said_wait_together_and_no_other_with_them(clock) -> None:
    throttle = Throttle(clock)
    for number in range(50):
        assert throttle.judge(f"10.0.0.{number}", right=False, forwarded=True) == 0
    assert throttle.judge("10.0.0.99", right=True, forwarded=True) == 60
    assert throttle.judge("10.0.0.99", right=True) == 0
    clock.now += 60
    assert throttle.judge("10.0.0.99", right=True, forwarded=True) == 0
