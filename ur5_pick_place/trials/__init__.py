# SPDX-License-Identifier: Apache-2.0
"""Programs that run, measure and report on the cell: demo, faults, soak, compare, report."""
