"""The world of topic models: where each of its parts is."""

import numpy as np

from interp.world import Overlay, World
from interp.worlds.topics.grammar import TopicGrammar
from interp.worlds.topics.inputs import documents
from interp.worlds.topics.recipes import OPTIONS, PRESETS, UNREAD, check
from interp.worlds.topics.settings import TopicSettings

WORLD = World(
    name="topics",
    about="documents whose words come from a few disjoint topics, masked for prediction (Li et al. 2023)",
    grammars=(TopicGrammar,),
    settings=TopicSettings,
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.topics.task:TopicTask",
    start="interp.worlds.topics.task:start_params",
    size="interp.worlds.topics.size:need",
    norms=True,
    inputs=documents,
    claims="interp.worlds.topics.claims:CLAIMS",
    reference="interp.worlds.topics.reference:REFERENCE",
    overlays={
        "topic_blocks": Overlay(
            "groups",
            lambda tokens, grammar: np.asarray(grammar.topic_of)[tokens],
            "topic",
            name=lambda topic: f"topic {topic}",
            usual=True,
        )
    },
)
