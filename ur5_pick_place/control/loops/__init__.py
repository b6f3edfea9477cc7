# SPDX-License-Identifier: Apache-2.0
"""Streamed motion: closed loops and jogs."""
