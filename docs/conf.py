"""How Sphinx builds the site: `make docs`. Pages are Markdown (MyST), which stays readable where it is not built.

Nothing is fetched while the site is built, and nothing from elsewhere while it is read.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cofill import __version__

project = "cofill"
copyright = "the cofill maintainers; MIT licence"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "directives.api",
    "directives.commands",
    "directives.routes",
    "directives.settings",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints", "directives"]

# Markdown. Links to headings are those of a code host.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
highlight_language = "none"
nb_execution_mode = "off"  # tests run the notebooks; the site shows what is saved in them

# Docstrings. Between single backticks stands code, as in the pages.
default_role = "code"
autodoc_member_order = "bysource"
autoclass_content = "both"  # what a class is, and what it is made with
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
# Types of other libraries, whose inventories would have to be fetched, and types behind the public names.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|pl|polars|pd|pandas|torch|pydantic|httpx|collections|datetime|pathlib|os|typing)\..*"),
    (r"py:.*", r"cofill\.(cluster|config|data|evaluation|models|progress|exchange)\..*"),
    (r"py:.*", r"cofill\.client\.(calls|client|transport)\..*"),
    (r"py:.*", r"(cofill\.errors\.Place|Rules|SimilarRules)"),
]

html_theme = "pydata_sphinx_theme"
html_title = f"cofill {release}"
html_static_path = ["_static"]
html_css_files = ["cofill.css"]
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system has it
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": f"cofill {release}"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "navigation_depth": 3,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": [],
}
html_sidebars: dict[str, list[str]] = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
