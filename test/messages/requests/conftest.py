# SPDX-License-Identifier: Apache-2.0
"""The fixture that tests of MoveIt requests share."""

from callbacks import services as services
