# SPDX-License-Identifier: Apache-2.0
"""Arrays to messages and back."""
