"""A document of headings, paragraphs, tables and pictures, as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; display: block; overflow-x: auto }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } td.section { font-style: italic; background: #f4f4f4 }
img { max-width: 100%; height: auto } code { background: #f4f4f4; padding: 0 .2rem }
"""


@dataclass
class Table:
    """Cells of text, in which ``**…**`` is bold; a row of one cell is the heading of those below it."""

    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def markdown(self) -> str:
        """Pipes and dashes."""
        width = len(self.header)
        lines = [list(self.header), ["---", *["---:"] * (width - 1)]]
        for row in self.rows:
            lines.append([f"*{row[0]}*", *[""] * (width - 1)] if len(row) == 1 else list(row))
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def html(self) -> str:
        """A table element."""
        width = len(self.header)
        parts = ["<table><thead><tr>", *(f"<th>{inline(cell)}</th>" for cell in self.header), "</tr></thead><tbody>"]
        for row in self.rows:
            if len(row) == 1:
                parts.append(f'<tr><td class="section" colspan="{width}">{inline(row[0])}</td></tr>')
            else:
                parts.append("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>")
        return "".join([*parts, "</tbody></table>"])


class Document:
    """Blocks, one after the other.

    :param title: of the page.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._markdown: list[str] = [f"# {title}"]
        self._html: list[str] = [f"<h1>{inline(title)}</h1>"]

    def heading(self, text: str, level: int = 2) -> None:
        """Start a section."""
        self._markdown.append(f"{'#' * level} {text}")
        self._html.append(f"<h{level}>{inline(text)}</h{level}>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self._markdown.append(text)
        self._html.append(f"<p>{inline(text)}</p>")

    def bullets(self, lines: Sequence[str]) -> None:
        """A list."""
        if lines:
            self._markdown.append("\n".join(f"- {line}" for line in lines))
            self._html.append("<ul>" + "".join(f"<li>{inline(line)}</li>" for line in lines) + "</ul>")

    def table(self, table: Table) -> None:
        """A table."""
        self._markdown.append(table.markdown())
        self._html.append(table.html())

    def picture(self, path: Path, caption: str) -> None:
        """A PNG file beside the document; the HTML page carries a copy, so that it can be sent alone."""
        self._markdown.append(f"![{caption}]({path.name})\n\n*{caption}*")
        code = base64.b64encode(path.read_bytes()).decode()
        escaped = html.escape(caption, quote=True)
        self._html.append(f'<p><img alt="{escaped}" src="data:image/png;base64,{code}"><br><i>{escaped}</i></p>')

    def markdown(self) -> str:
        """All of it as Markdown."""
        return "\n\n".join(self._markdown) + "\n"

    def html(self) -> str:
        """All of it as one page."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title><style>{_STYLE}</style>'
        body = "\n".join(self._html)
        return f'<!doctype html><html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def inline(text: str) -> str:
    """Bold, italics and code of Markdown, everything else as it reads."""
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", escaped)
    return re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<i>\1</i>", escaped)
