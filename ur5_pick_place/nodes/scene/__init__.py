# SPDX-License-Identifier: Apache-2.0
"""The planning scene: its owner and its followers."""
