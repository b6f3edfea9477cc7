# SPDX-License-Identifier: Apache-2.0
"""The page of interfaces says of every topic, service and action of our nodes what it is."""

import importlib
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / 'docs'


@pytest.mark.drill
def test_the_page_of_interfaces_explains_every_name_and_no_other(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    page = importlib.import_module('generate').interfaces()  # raises with the names
    assert '`plan_kinematic_path`' in page and '## Of the driver' in page
