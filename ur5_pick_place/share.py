# SPDX-License-Identifier: Apache-2.0
"""Where config/ and launch/ are."""

from pathlib import Path

from ur5_pick_place.errors import InvalidInput

_NAME = 'ur5_pick_place'


def share_directory() -> Path:
    """
    Return the checkout, or the share folder of the prefix that the package is installed in.

    Raises
    ------
    InvalidInput
        There is neither.

    """
    for parent in Path(__file__).resolve().parents[1:]:
        for folder in (parent, parent / 'share' / _NAME):
            if (folder / 'config' / 'cycle.yaml').is_file():
                return folder
    raise InvalidInput(f'{_NAME}: no config folder near {__file__}: install the package again')
