"""The log of a queue stays small, however many messages go by and whatever waits in it (`make log-sizes`)."""

import pytest

from tests.house.log_sizes import Run, own_broker


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("messages", [60_000, 2_000_000])
def test_the_log_is_deleted_beside_a_message_that_waits_for_a_week(messages: int) -> None:
    """LOG-4, of LOG-8: a message that is delayed and a subscription that stays behind keep little; recovery is short.

    The speed is judged by the program alone, on a machine that does nothing else.
    """
    with own_broker() as (bootstrap, data):
        found = Run(bootstrap, data, messages).measure()
    print(found)
    assert not [each for each in found.broken() if "as fast" not in each]
    assert found.kept_records <= messages // 10, found.keepers
