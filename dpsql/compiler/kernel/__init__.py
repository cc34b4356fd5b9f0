"""The kernel: proofs about one unit's rows, from the final relations of a plan alone."""
