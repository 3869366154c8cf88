"""Speed, always as a ratio within one run: against a naive version, a peer, or a smaller size."""
