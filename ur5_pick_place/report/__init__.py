# SPDX-License-Identifier: Apache-2.0
"""Recordings as text, page and plots."""
