"""Serving: texts from a model, plain or compressed."""

from zipjax.serve.compare import LogitsComparison as LogitsComparison
from zipjax.serve.compare import LogitsRecord as LogitsRecord
from zipjax.serve.compare import compare_logits as compare_logits
from zipjax.serve.generate import Completion as Completion
from zipjax.serve.generate import GenerationStep as GenerationStep
from zipjax.serve.generate import generate as generate
from zipjax.serve.generate import generation_steps as generation_steps
from zipjax.serve.sampling import Sampling as Sampling
from zipjax.serve.text_stream import TextStream as TextStream
