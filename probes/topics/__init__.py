"""Topics in weights and attention: blocks by topic, and training in two stages."""

from probes.topics.blocks import TopicBlocksResult, analyze_topic_blocks
from probes.topics.clusters import adjusted_rand
from probes.topics.two_stage import TwoStageResult, analyze_two_stages, rotation

__all__ = [
    "TopicBlocksResult",
    "TwoStageResult",
    "adjusted_rand",
    "analyze_topic_blocks",
    "analyze_two_stages",
    "rotation",
]
