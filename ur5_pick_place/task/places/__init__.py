# SPDX-License-Identifier: Apache-2.0
"""Places: their names, taught poses and the file of these, and whether the arm can be there."""
