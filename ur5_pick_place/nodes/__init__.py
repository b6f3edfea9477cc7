# SPDX-License-Identifier: Apache-2.0
"""The ROS side: nodes and the demo; the only sub-package that imports ROS."""
