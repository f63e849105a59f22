"""Pages of the site that are not under docs/, and links from pages to files that are on no page.

README, changelog and the community files become pages. A link to another file of the repository leads to it in the
repository if ``repo_url`` is configured; else its text remains.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
"""Files of the root, and the names of their pages."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root."""
    from mkdocs.structure.files import File

    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Change the links of a page."""
    sources = {name: source for source, name in PAGES.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return linked(markdown, source, config.get("repo_url") or "")


def linked(markdown: str, source: str, repository: str) -> str:
    """Return the text of a file of the repository with links that hold on the site.

    ``source`` is its path in the repository, ``repository`` the URL of the repository or ''.
    """

    def replaced(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if ":" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PAGES:
            return f"[{text}]({PAGES[path]}{anchor})"
        if path.startswith("docs/") and (ROOT / path).is_file():
            return f"[{text}]({path.removeprefix('docs/')}{anchor})"
        return f"[{text}]({repository.rstrip('/')}/blob/main/{path}{anchor})" if repository else text

    # Images of the README are under docs/ as well.
    markdown = re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", markdown) if source == "README.md" else markdown
    parts = _CODE.split(markdown)
    # Links around code keep it: only blocks are left as they are.
    blocks = [part if part.startswith("```") else None for part in parts]
    texts = "".join(
        f"\0{number}\0" if block else part for number, (part, block) in enumerate(zip(parts, blocks, strict=True))
    )
    changed = _LINK.sub(replaced, texts)
    return re.sub(r"\0(\d+)\0", lambda found: parts[int(found[1])], changed)
