"""Other projects' learners on our data: each in a virtual environment of its own, run as a separate process.

``run_peer("notears", data, seed=0, time_limit=60)`` gives graphs, CPU seconds, memory, versions and settings, or the
text of what went wrong; it does not raise for a peer's failure, so that a sweep gets a row in any case.
"""

from benchmarks.peers.environments import EnvironmentFailure, ensure_environment, peers_folder
from benchmarks.peers.methods import METHODS, Method
from benchmarks.peers.runner import PeerRun, run_peer

__all__ = ["METHODS", "EnvironmentFailure", "Method", "PeerRun", "ensure_environment", "peers_folder", "run_peer"]
