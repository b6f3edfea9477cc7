# SPDX-License-Identifier: Apache-2.0
"""The simulated cell behind a UR controller's own network protocols."""
