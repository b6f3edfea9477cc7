# SPDX-License-Identifier: Apache-2.0
"""Paths in joint and tool space."""
