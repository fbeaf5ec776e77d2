"""Topics in weights and attention: blocks by topic, and training in two stages."""

from probes.topics.attention import PairSums, attention_sums, documents, pair_sums
from probes.topics.blocks import analyze_topic_blocks
from probes.topics.blocks_result import TopicBlocksResult
from probes.topics.clusters import adjusted_rand
from probes.topics.two_stage import analyze_two_stages, rotation
from probes.topics.two_stage_result import Run, TwoStageResult

__all__ = [
    "PairSums",
    "Run",
    "TopicBlocksResult",
    "TwoStageResult",
    "adjusted_rand",
    "analyze_topic_blocks",
    "analyze_two_stages",
    "attention_sums",
    "documents",
    "pair_sums",
    "rotation",
]
