# SPDX-License-Identifier: Apache-2.0
"""What the fuzz tests share: how many examples, and values that nobody expects."""

import os
from datetime import timedelta

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

FUZZ = int(os.environ.get('UR5_FUZZ', '400'))  # examples, all fuzz tests together
_HANGS = timedelta(seconds=20)  # an example takes milliseconds; one that hangs is a failure

NUMBERS = st.one_of(
    st.floats(),
    st.floats(-7.0, 7.0),
    st.sampled_from([0.0, -0.0, 1e-308, 1e17, -1e154, 1.7e308]),
)
WHOLE = st.one_of(st.integers(-3, 20), st.sampled_from([2**31, -(2**63), 2**64, 10**400]))
TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(['', 'base', 'tool0', 'tcp', 'part', 'table', 'a/b', '\ud800', 'x' * 5000]),
)


def fuzzed(share: float) -> settings:
    """Give a test its share of all examples; the same ones each time unless more are asked for."""
    return settings(
        max_examples=max(1, round(share * FUZZ)),
        derandomize='UR5_FUZZ' not in os.environ,
        database=None,
        deadline=_HANGS,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
