"""What a row holds."""

from __future__ import annotations

METRICS = (
    "expected_shd",
    "shd",
    "f1",
    "nnz",
    "skeleton_f1",
    "cpdag_shd",
    "class_shd",
    "auroc",
    "average_precision",
    "brier",
    "ece",
    "edge_entropy",
    "order_agreement",
)
LARGER_IS_BETTER = ("f1", "skeleton_f1", "auroc", "average_precision", "order_agreement")
KEY = ("suite", "case", "method", "seed", "size")
FACTS = ("num_rows", "num_nodes", "num_edges", "var_sortability", "r2_sortability")
COSTS = ("wall_seconds", "cpu_seconds", "peak_memory")
LIMITS = ("time_limit",)
TEXTS = ("kind", "error", "figures", "settings", "versions", "commit", "marginals")
COLUMNS = (*KEY, *METRICS, *COSTS, *LIMITS, *FACTS, *TEXTS)
ADDED = LIMITS  # later than the first stores, which are without them
