# SPDX-License-Identifier: Apache-2.0
"""Timing of paths."""
