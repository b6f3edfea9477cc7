# SPDX-License-Identifier: Apache-2.0
"""The simulated cell as a node."""
