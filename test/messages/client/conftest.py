# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests of client and page share."""

from fake_link import cell as cell
from fake_link import link as link
from guarded_page import page as page
