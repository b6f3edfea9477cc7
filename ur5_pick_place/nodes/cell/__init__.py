# SPDX-License-Identifier: Apache-2.0
"""What all nodes of a cell share: settings, node list, preflight."""
