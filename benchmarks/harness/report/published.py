"""Figures that others published and that were not run here."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "published.csv"


@dataclass(frozen=True)
class Published:
    """One figure.

    :param suite: that it belongs beside.
    :param group: title of the group of cases, or empty for the whole suite.
    :param method: whose figure it is.
    :param metric: as the columns of the store are named, or in words.
    :param value: as printed there.
    :param source: publication and table or page.
    :param note: how the setting there differs from the one here.
    """

    suite: str
    group: str
    method: str
    metric: str
    value: str
    source: str
    note: str

    def text(self) -> str:
        """For a table."""
        return f"{self.value} †"


def read_published(path: Path = FILE) -> list[Published]:
    """All figures."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Published(**row) for row in csv.DictReader(file)]
