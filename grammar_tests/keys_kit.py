"""The keys of a plan, for tests that know how they are published."""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import (
    Domain,
    ListedKeys,
    ThresholdKeys,
    TopKeys,
    TrialKeys,
)
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.truncated_geometric import KeyTrials


def listing(block: BlockPlan, domain: Domain) -> BlockPlan:
    """The block with these public keys."""
    return replace(block, keys=ListedKeys(domain))


def top_keys(block: BlockPlan) -> TopKeys:
    assert isinstance(block.keys, TopKeys)
    return block.keys


def chooses(block: BlockPlan) -> bool:
    """Whether the first keys alone are shown."""
    return isinstance(block.keys, TopKeys)


def threshold_of(block: BlockPlan) -> Threshold:
    assert isinstance(block.keys, ThresholdKeys)
    return block.keys.threshold


def key_trials_of(block: BlockPlan) -> KeyTrials:
    assert isinstance(block.keys, TrialKeys)
    return block.keys.trials


def with_threshold(block: BlockPlan, other: Threshold) -> BlockPlan:
    assert isinstance(block.keys, ThresholdKeys)
    return replace(block, keys=replace(block.keys, threshold=other))
