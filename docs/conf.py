# SPDX-License-Identifier: Apache-2.0
"""
The site of `make docs`, by Sphinx with MyST.

Sphinx, as it checks every reference, reads the docstrings, and is kept up: MkDocs's Material ends
in 2027. The pages stay plain Markdown, which GitHub shows too.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
URL = 'https://github.com/ur5-pick-place/ur5_pick_place'
sys.path.insert(0, str(HERE))

project = 'ur5_pick_place'
author = copyright = 'ur5_pick_place maintainers'
html_title = 'ur5_pick_place'
html_theme = 'furo'
html_theme_options = {
    'source_repository': URL,
    'source_branch': 'main',
    'source_directory': 'docs/',
}
html_static_path = ['site.css']
html_css_files = ['site.css']
html_show_sphinx = False
html_copy_source = False
exclude_patterns = ['__pycache__']
extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx_copybutton',
    'sphinxcontrib.mermaid',
]
myst_heading_anchors = 4
myst_fence_as_directive = ['mermaid']
mermaid_height = 'auto'
mermaid_fullscreen = False
default_role = 'code'
autodoc_member_order = 'bysource'
autodoc_typehints = 'none'
copybutton_exclude = '.linenos, .gp, .go'


def complete(_app, docname, source):
    """Fill in what is generated, and send links to files outside `docs/` to the repository."""
    import generate

    folder = (HERE / docname).parent

    def target(found):
        file = (folder / found[1]).resolve()
        if file.is_relative_to(HERE):
            return found[0]
        kind = 'tree' if file.is_dir() else 'blob'
        return f']({URL}/{kind}/main/{file.relative_to(REPO)}{found[2] or ""})'

    text = re.sub(r'\]\((\.\.[^)#]*)(#[^)]*)?\)', target, source[0])
    source[0] = generate.MARK.sub(lambda found: generate.PARTS[found[1]](), text)


def setup(app):
    app.connect('source-read', complete)
