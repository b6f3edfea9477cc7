# SPDX-License-Identifier: Apache-2.0
"""A cycle as data: its file, its stages, what they mean for the part, and patterns."""
