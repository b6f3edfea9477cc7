# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests of the simulated driver share."""

from lone_driver import cell as cell
from lone_driver import driver as driver
