"""Whether the built site leads everywhere it says: `python docs/links.py build/site`.

mkdocs checks links between pages; this reads what came out: every link, anchor, image, script and style of every
page is on the site, and nothing that a page loads by itself is on the network. Links that a reader may follow are
left alone.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """What a page has and what it leads to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.leads: list[tuple[str, str, str]] = []  # tag, attribute, address
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.leads.append((tag, name, value))


def broken(site: Path) -> Iterator[str]:
    """One line for each thing that leads nowhere, or is loaded from the network."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for tag, attribute, address in page.leads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if (tag, attribute) in LOADED and parts.scheme != "data":
                    yield f"{where}: loads {address} from the network"
                continue
            if where.name == "404.html":  # its addresses begin at the root of a server
                continue
            aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            aim = aim / "index.html" if aim.is_dir() else aim
            if not aim.exists():
                yield f"{where}: {address} leads to no file"
            elif parts.fragment and aim in pages and unquote(parts.fragment) not in pages[aim].anchors:
                yield f"{where}: {address} leads to no place of its page"
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\(\s*['\"]?(https?:[^)'\"]+)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {address} from the network"


def main() -> int:
    """1 where something leads nowhere."""
    found = list(broken(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "every link of the site leads somewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
