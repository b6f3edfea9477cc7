# SPDX-License-Identifier: Apache-2.0
"""URScript: programs that clients send, compiled and run cycle by cycle."""
