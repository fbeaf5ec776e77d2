"""The blocks of `probes.topics` under their older name."""

from probes.topics import TopicBlocksResult, adjusted_rand, analyze_topic_blocks

__all__ = [
    "TopicBlocksResult",
    "adjusted_rand",
    "analyze_topic_blocks",
]
