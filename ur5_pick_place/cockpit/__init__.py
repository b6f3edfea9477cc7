# SPDX-License-Identifier: Apache-2.0
"""The cockpit: a page that shows the cell and asks its nodes; it decides nothing itself."""
