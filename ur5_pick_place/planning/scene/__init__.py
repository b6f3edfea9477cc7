# SPDX-License-Identifier: Apache-2.0
"""The scene: shapes, bodies, objects."""
