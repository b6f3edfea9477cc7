# SPDX-License-Identifier: Apache-2.0
"""The physics of the simulated cell: arms, hands, cubes and boxes in MuJoCo."""
