# SPDX-License-Identifier: Apache-2.0
"""The cockpit: a page that shows the cell, a client of its nodes; it decides nothing itself."""
