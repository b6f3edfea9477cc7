# SPDX-License-Identifier: Apache-2.0
"""Commands that start a simulated cell: `demo`, `cell` and `compare`."""
