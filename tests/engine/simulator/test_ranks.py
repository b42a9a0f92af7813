"""Every rank of a worker comes to the same decisions; one that does not is found at once."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.factory import make_scheduler
from engine.core.io_struct import SamplingParams, TokenizedGenerateReqInput
from engine.core.peer import Inbound
from engine.simulator.draw import Size, draw_schedule
from engine.simulator.errors import RanksDisagree
from engine.simulator.ranks import Followers
from engine.simulator.simulation import simulate

CONFIG = SchedulerConfig(worker_name="d0", incarnation="d0.1", num_pages=8)
REQUEST = TokenizedGenerateReqInput(
    rid="a",
    input_ids=(1, 2),
    sampling_params=SamplingParams(max_new_tokens=4),
    received_ns=1,
    bootstrap_host="p0",
    bootstrap_port=1,
    bootstrap_room=7,
)


def test_ranks_agree_and_change_nothing() -> None:
    schedule = draw_schedule(20_001, Size())
    digests = set()
    for num_ranks in (1, 2, 3):
        topology = msgspec.structs.replace(schedule.topology, num_ranks=num_ranks, num_layers=0)
        outcome = simulate(msgspec.structs.replace(schedule, topology=topology))
        assert outcome.violation is None
        digests.add(outcome.digest)
    assert len(digests) == 1, "the number of ranks changes answers"


class Deaf(Followers):
    """Its second rank hears nothing."""

    def heard_by(self, rank: int, messages: list[Inbound]) -> list[Inbound]:
        return messages if rank == 1 else []


def test_a_deaf_rank_is_found() -> None:
    leader, *others = [make_scheduler(DisaggregationMode.DECODE, CONFIG) for _ in range(3)]
    ranks = Deaf(others)
    leader.recv([REQUEST], 1)
    ranks.recv([REQUEST], 1)
    with pytest.raises(RanksDisagree, match="the same rooms"):
        ranks.compare_state(leader)
    effects = leader.take_effects()
    with pytest.raises(RanksDisagree, match="rank 2"):
        ranks.compare_effects(effects)
