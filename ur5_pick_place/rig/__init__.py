# SPDX-License-Identifier: Apache-2.0
"""The whole cell in one process, in simulated time alone: for comparing, soaking and faults."""
