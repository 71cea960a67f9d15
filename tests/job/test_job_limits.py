from __future__ import annotations

import pytest

from potato_ray.job.limits import Sight, Watch, data_limit_mb
from potato_ray.job.spec import Limits


def watch(**limits):
    return Watch(Limits(**limits), started=100.0)


def test_a_worker_inside_its_limits_goes_on():
    everything = watch(max_wall_s=10, max_ram_mb=512, lost_after_s=60)
    assert everything.verdict(105.0, Sight(used_mb=512.0)) is None


def test_the_wall_clock_counts_from_the_workers_start():
    stop = watch(max_wall_s=10, grace_s=7).verdict(110.0, Sight())
    assert (stop.reason, stop.grace_s) == ("wall_clock", 7)
    assert "10.0 s" in stop.detail


def test_too_much_memory_is_ended_without_grace():
    stop = watch(max_ram_mb=512).verdict(101.0, Sight(used_mb=612.4))
    assert (stop.reason, stop.grace_s) == ("out_of_memory", 0.0)
    assert "612 MiB" in stop.detail


def test_a_cancel_brings_its_own_grace():
    stop = watch(grace_s=20).verdict(101.0, Sight(cancel={"reason": "asked", "grace_s": 3}))
    assert (stop.reason, stop.grace_s, stop.detail) == ("cancelled", 3.0, "asked")


@pytest.mark.parametrize("body", [{}, {"grace_s": "soon"}, {"grace_s": None}])
def test_a_cancel_that_says_nothing_useful_still_cancels(body):
    stop = watch(grace_s=20).verdict(101.0, Sight(cancel=body))
    assert (stop.reason, stop.grace_s) == ("cancelled", 20.0)


def test_a_cancel_explains_more_than_a_sigterm_or_a_limit():
    sight = Sight(used_mb=9999, cancel={"grace_s": 1}, terminated=True)
    assert watch(max_ram_mb=512).verdict(101.0, sight).reason == "cancelled"


def test_a_lease_that_was_never_there_counts_from_the_start():
    never = watch(lost_after_s=30)
    assert never.verdict(129.9, Sight()) is None
    assert never.verdict(130.0, Sight()).reason == "lost"


def test_each_change_of_the_lease_starts_the_count_again():
    renewed = watch(lost_after_s=30)
    assert renewed.verdict(129.0, Sight(lease=5000.0)) is None
    assert renewed.verdict(158.9, Sight(lease=5000.0)) is None
    assert renewed.verdict(159.0, Sight(lease=5000.0)).reason == "lost"


def test_a_clock_that_jumps_back_still_counts_as_a_renewal():
    jumping = watch(lost_after_s=30)
    jumping.verdict(101.0, Sight(lease=9_000_000.0))
    assert jumping.verdict(140.0, Sight(lease=5.0)) is None


def test_a_removed_folder_is_a_lost_run():
    assert watch().verdict(101.0, Sight(folder_exists=False)).reason == "lost"


def test_a_sigterm_to_the_launcher_is_no_cancel():
    assert watch().verdict(101.0, Sight(terminated=True)).reason == "terminated"


def test_the_backstop_lies_far_above_the_sampled_limit():
    assert data_limit_mb(None) is None
    assert data_limit_mb(512) == 4096
    assert data_limit_mb(16_000) == 64_000
