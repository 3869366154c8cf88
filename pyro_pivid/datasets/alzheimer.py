"""Causes of Alzheimer's disease: the user's own ADNI table, a reference graph, and a simulated cohort in its place.

ADNI data may be had only under ADNI's own data-use agreement. None are in this library, nor anything estimated from
them: the numbers of the simulated cohort are chosen by hand.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from pyro_pivid.datasets.arguments import check_choice, whole_number
from pyro_pivid.datasets.bnlearn import draw_linear
from pyro_pivid.datasets.graphs import make_generator, name_seed, uniform
from pyro_pivid.datasets.real import RealData, edges_to_matrix, make_frame, read_text
from pyro_pivid.datasets.sources import DataNotFoundError, PathLike, as_path
from pyro_pivid.table import read_table

NAMES = ("AGE", "PTEDUCAT", "FDG", "ABETA", "PTAU", "APOE4", "DX")

_STUDIES = ("ADNI1", "ADNI2", "ADNIGO")
_DISCRETE = ("PTEDUCAT", "APOE4", "DX", "PTGENDER")
_CODES = {"DX": {"CN": 0.0, "MCI": 1.0, "Dementia": 2.0}, "PTGENDER": {"Female": 0.0, "Male": 1.0}}

# Weight of each link in the simulated cohort, in units of the child for each unit of the parent. Chosen by hand.
_WEIGHTS = {
    ("AGE", "ABETA"): -8.0,
    ("APOE4", "ABETA"): -180.0,
    ("ABETA", "FDG"): 0.00025,
    ("ABETA", "PTAU"): -0.018,
    ("FDG", "DX"): -2.5,
    ("PTAU", "DX"): 0.045,
    ("PTEDUCAT", "DX"): -0.05,
}
# Mean and standard deviation of what the parents do not explain; the mean with the parents at theirs.
_LEVELS = {
    "AGE": (73.0, 7.0),
    "PTEDUCAT": (16.0, 2.7),
    "FDG": (1.22, 0.11),
    "ABETA": (1020.0, 220.0),
    "PTAU": (28.0, 5.0),
    "APOE4": (0.54, 0.63),
    "DX": (0.9, 0.4),
}
_ALLELE_FREQUENCY = 0.27

_GRAPH_NOTES = (
    "The reference graph of 7 links is attributed to Shen, Ma, Vemuri, Simon (Scientific Reports 10:2975, 2020) and "
    "taken from one secondary source (github.com/HamidrezaKmK/oslow, MIT): compare it with the article before relying "
    "on it. In it PTGENDER has no link."
)
_NOTES = (
    "Rows of ADNI1, ADNI2 and ADNIGO without missing values, {visits}. AGE is that at the first visit. Values beyond "
    "the limits of an assay (such as '>1700') are set to the limit. DX is coded 0 CN, 1 MCI, 2 Dementia. {noise}"
)
_SIMULATED_NOTES = (
    "SIMULATED: no patient is in these data, nothing in them was estimated from any, and nothing medical follows from "
    "them. {num_rows} rows, seed {seed}, drawn from the reference graph with linear mechanisms whose numbers were "
    "chosen by hand to give plausible units; `truth` holds the weights. DX is a continuous severity, about 0 for "
    "cognitively normal, 1 for mild impairment and 2 for dementia. APOE4 (0, 1, 2 alleles) and PTEDUCAT (whole years) "
    "are discrete, the rest is not; `parameters` gives the years of education as they were before rounding."
)

_OBTAIN = (
    "ADNI's table is licensed: apply for it at https://adni.loni.usc.edu and pass its path, or use "
    "`simulate_alzheimer` for simulated data."
)


def load_alzheimer(
    path: PathLike,
    *,
    visits: str = "all",
    with_gender: bool = False,
    dequantize: bool = True,
    seed: int | torch.Generator = 0,
) -> RealData:
    """The user's own ``ADNIMERGE.csv`` reduced to seven variables, with a reference graph of seven links.

    Age, education (years), FDG (uptake in PET), ABETA and PTAU (pg/ml in the cerebrospinal fluid), APOE4 (number of
    alleles) and the diagnosis DX. The file is licensed: get it from https://adni.loni.usc.edu. For everyone else there
    is :func:`simulate_alzheimer`.

    >>> import pathlib, tempfile
    >>> rows = ["COLPROT,AGE,PTEDUCAT,FDG,ABETA,PTAU,APOE4,DX", "ADNI1,70.1,16,1.2,>1700,<8,0,CN",
    ...         "ADNI2,75.0,12,1.0,600,31.5,1,Dementia", "ADNI3,71.0,12,1.1,900,20,1,MCI"]  # made up
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = (pathlib.Path(folder) / "ADNIMERGE.csv").write_text(chr(10).join(rows))
    ...     load_alzheimer(folder, dequantize=False).data
        AGE  PTEDUCAT  FDG   ABETA  PTAU  APOE4   DX
    0  70.1      16.0  1.2  1700.0   8.0    0.0  0.0
    1  75.0      12.0  1.0   600.0  31.5    1.0  2.0

    **Reference**: X. Shen, S. Ma, P. Vemuri, G. Simon, *Challenges and opportunities with causal discovery algorithms:
    application to Alzheimer's pathophysiology*, Scientific Reports 10:2975, 2020.

    :param path: the file, or the folder it is in.
    :param visits: ``"all"`` complete visits, several of one person, as in earlier analyses; or ``"first"``, the first
        complete one of each person, so that rows are independent (needs the columns ``RID`` and ``EXAMDATE``).
    :param with_gender: whether to keep ``PTGENDER`` (0 female, 1 male), an isolated node of the reference graph.
    :param dequantize: whether to add U(0, 1) to the discrete columns (education, alleles, diagnosis, gender).
    :param seed: of that noise.
    """
    check_choice("visits", visits, ("all", "first"))
    generator = make_generator(seed)
    file = _find_table(path)
    names = NAMES + (("PTGENDER",) if with_gender else ())
    rows = _complete_rows(file, names, visits)
    data = make_frame(pd.DataFrame({name: _as_numbers(rows[name], name) for name in names}).to_numpy(), names)
    if dequantize:
        for name in (name for name in names if name in _DISCRETE):
            data[name] += uniform((len(data),), generator).numpy()
    read_table(data)  # refuses infinite values and columns that do not vary
    which = "all visits, so that rows of one person depend on each other" if visits == "all" else "the first of each"
    noise = "Uniform noise was added to the discrete columns." if dequantize else "Discrete columns are left so."
    return RealData(
        "alzheimer",
        data,
        edges_to_matrix(_WEIGHTS, names),
        notes=f"{_NOTES.format(visits=which, noise=noise)} {_GRAPH_NOTES}",
        source=str(file),
        licence="ADNI's data-use agreement (https://adni.loni.usc.edu): not to be passed on",
    )


def simulate_alzheimer(num_rows: int = 1000, *, seed: int | torch.Generator = 0) -> RealData:
    """A SIMULATED cohort with the seven variables of :func:`load_alzheimer`: no patient is in it.

    A linear model on the reference graph, its weights and units chosen by hand to be plausible. Nothing medical
    follows from it; it is there to learn and to test with.

    >>> cohort = simulate_alzheimer(200, seed=1)
    >>> cohort.data.shape, cohort.num_edges, cohort.notes.split(":")[0]
    ((200, 7), 7, 'SIMULATED')
    >>> cohort.truth[cohort.names.index("ABETA"), cohort.names.index("PTAU")].item()
    -0.018

    :param num_rows: number of simulated people.
    :param seed: a number, or a CPU generator to draw from.
    """
    num_rows = whole_number("num_rows", num_rows, least=1)
    generator = make_generator(seed)
    weights = edges_to_matrix(_WEIGHTS, NAMES)
    for (parent, child), weight in _WEIGHTS.items():
        weights[NAMES.index(parent), NAMES.index(child)] = weight
    levels = torch.tensor([_LEVELS[name] for name in NAMES], dtype=torch.float64, device="cpu")
    mean, scale = levels.T
    parameters = pd.DataFrame({"intercept": mean - mean @ weights, "variance": scale**2}, index=pd.Index(NAMES))

    discrete = torch.full((num_rows, len(NAMES)), torch.nan, dtype=torch.float64, device="cpu")
    alleles = uniform((num_rows, 2), generator) < _ALLELE_FREQUENCY
    discrete[:, NAMES.index("APOE4")] = alleles.sum(-1).double()
    education = NAMES.index("PTEDUCAT")
    # The probit of a uniform draw is a normal one; kept within the school years that occur.
    normal = torch.special.ndtri(uniform((num_rows,), generator))
    discrete[:, education] = (mean[education] + scale[education] * normal).round().clamp(6, 20)
    return RealData(
        "alzheimer_simulated",
        draw_linear(weights, parameters, num_rows, generator, roots=discrete),
        weights,
        notes=f"{_SIMULATED_NOTES.format(num_rows=num_rows, seed=name_seed(seed))} {_GRAPH_NOTES}",
        source="simulate_alzheimer",
        licence="that of this library",
        parameters=parameters,
    )


def _find_table(path: PathLike) -> Path:
    file = as_path(path, remedy=_OBTAIN)
    file = file / "ADNIMERGE.csv" if file.is_dir() else file
    if not file.is_file():
        raise DataNotFoundError(f"Expected ADNI's table 'ADNIMERGE.csv', but there is no file at '{file}'. {_OBTAIN}")
    return file


def _complete_rows(file: Path, names: tuple[str, ...], visits: str) -> pd.DataFrame:
    """Rows of the three studies with a value in all columns, as text."""
    person = ("RID", "EXAMDATE") if visits == "first" else ()
    needed = ("COLPROT", *names, *person)
    table = read_text(file, needed, allow_missing=True)
    rows = table.loc[table["COLPROT"].isin(_STUDIES), list(needed)].dropna()
    if visits == "first":
        rows = rows.assign(EXAMDATE=_as_dates(rows["EXAMDATE"]))
        rows = rows.sort_values("EXAMDATE", kind="stable").drop_duplicates("RID").sort_index()
    if rows.empty:
        raise ValueError(f"Expected complete rows with COLPROT in {list(_STUDIES)} in '{file}', but there are none.")
    return rows


def _as_dates(column: pd.Series) -> pd.Series:
    """Text as dates, in the format of the first of them."""
    dates = pd.to_datetime(column, errors="coerce")
    if dates.isna().any():
        strange = sorted(set(column[dates.isna()]))[:5]
        raise ValueError(
            f"Expected dates of one format, such as '2006-05-02', in the column EXAMDATE, but got {strange}. "
            'Fix or drop these rows, or take `visits="all"`, which needs no dates.'
        )
    return dates


def _as_numbers(column: pd.Series, name: str) -> pd.Series:
    """Text as numbers: codes for words, and the limit for a value beyond it, such as ``>1700`` or ``<8``."""
    if name in _CODES:
        numbers = column.map(_CODES[name])
    else:
        numbers = pd.to_numeric(column.str.strip().str.lstrip("<>"), errors="coerce")
    if numbers.isna().any():
        strange = sorted(set(column[numbers.isna()]))[:5]
        expected = list(_CODES[name]) if name in _CODES else "numbers, or limits such as '>1700'"
        raise ValueError(f"Expected {expected} in the column {name}, but got {strange}. Fix or drop these rows.")
    return numbers
