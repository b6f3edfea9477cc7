# SPDX-License-Identifier: Apache-2.0
"""The laboratory: every fault in every stage, random cycles by the hundred."""
