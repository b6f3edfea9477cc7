# SPDX-License-Identifier: Apache-2.0
"""Let a UR5 pick a part up at one taught place and put it down at another."""

__version__ = '0.1.0'
