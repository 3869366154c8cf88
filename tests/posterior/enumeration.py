"""Every DAG over four nodes with its exact posterior probability under BGe and uniform orders, by listing them all."""

import itertools
import math

import ges.utils
import networkx as nx
import numpy as np
from scipy import stats

from tests.collapsed.brute_force import bge_density, subsets_of


class AllDAGs:
    """Adjacency matrices, probabilities, and what they say; nothing of the library is used."""

    def __init__(self, values, link_prob):
        self.values = np.asarray(values)
        self.num_nodes = self.values.shape[1]
        nodes = range(self.num_nodes)
        joint = {s: bge_density(self.values, s) if s else 0.0 for s in subsets_of(nodes)}
        pairs = [(i, j) for i in nodes for j in nodes if i != j]
        self.graphs, self.extensions, logs = [], [], []
        orders = list(itertools.permutations(nodes))
        num_pairs = self.num_nodes * (self.num_nodes - 1) // 2
        for code in range(1 << len(pairs)):
            links = [pair for bit, pair in enumerate(pairs) if code >> bit & 1]
            if any((j, i) in links for i, j in links):
                continue
            allowed = [o for o in orders if all(o.index(i) < o.index(j) for i, j in links)]
            if not allowed:
                continue
            score = 0.0
            for j in nodes:
                parents = tuple(i for i in nodes if (i, j) in links)
                score += joint[tuple(sorted((*parents, j)))] - joint[parents]
            prior = len(links) * math.log(link_prob) + (num_pairs - len(links)) * math.log1p(-link_prob)
            logs.append(score + prior + math.log(len(allowed)))
            graph = np.zeros((self.num_nodes, self.num_nodes), int)
            for link in links:
                graph[link] = 1
            self.graphs.append(graph)
            self.extensions.append(allowed)
        self.graphs = np.stack(self.graphs)
        self.probs = np.exp(np.array(logs) - np.logaddexp.reduce(logs))

    def edge_probs(self):
        return np.einsum("g,gij->ij", self.probs, self.graphs)

    def order_probs(self):
        total = np.zeros((self.num_nodes, self.num_nodes))
        for prob, orders in zip(self.probs, self.extensions, strict=True):
            for order in orders:
                for i, j in itertools.combinations(order, 2):
                    total[i, j] += prob / len(orders)
        return total

    def path_probs(self):
        total = np.zeros((self.num_nodes, self.num_nodes))
        for prob, graph in zip(self.probs, self.graphs, strict=True):
            closure = nx.transitive_closure(nx.from_numpy_array(graph, create_using=nx.DiGraph))
            total += prob * nx.to_numpy_array(closure, nodelist=range(self.num_nodes))
        return total

    def cpdag_masses(self):
        masses = {}
        for prob, graph in zip(self.probs, self.graphs, strict=True):
            key = (ges.utils.dag_to_cpdag(graph) != 0).tobytes()
            masses[key] = masses.get(key, 0.0) + prob
        return masses

    def log_predictive(self, row):
        """log p(row | data): Student densities of sets of columns, multiplied as each graph says, averaged."""
        means, scales = self.values.mean(0), self.values.std(0)
        standard, new = (self.values - means) / scales, (row - means) / scales
        joint = {s: student(standard, new, s) if s else 0.0 for s in subsets_of(range(self.num_nodes))}
        logs = []
        for graph in self.graphs:
            score = 0.0
            for j in range(self.num_nodes):
                parents = tuple(np.flatnonzero(graph[:, j]).tolist())
                score += joint[tuple(sorted((*parents, j)))] - joint[parents]
            logs.append(score)
        return np.logaddexp.reduce(np.array(logs) + np.log(self.probs)) - np.log(scales).sum()


def student(standard, new, columns):
    """Predictive density of some columns of a new row, their mean flat and their precision Wishart a priori."""
    columns = list(columns)
    size, num_rows = len(columns), len(standard)
    values = standard[:, columns]
    centred = values - values.mean(0)
    scatter = 0.5 * np.eye(size) + centred.T @ centred
    dof = 2 + size + (num_rows - 1) - size + 1  # the mean takes one row
    shape = scatter * (num_rows + 1) / (num_rows * dof)
    return stats.multivariate_t.logpdf(new[columns], values.mean(0), shape, df=dof)
