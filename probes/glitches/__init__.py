"""How often are reads of a flip-flop answered wrong, in the law of training and beyond it?"""

from probes.glitches.analyzer import LAWS, analyze_glitches, flipflop_of, glitch_strings
from probes.glitches.counts import share_of_reads
from probes.glitches.result import GlitchResult

__all__ = ["LAWS", "GlitchResult", "analyze_glitches", "flipflop_of", "glitch_strings", "share_of_reads"]
