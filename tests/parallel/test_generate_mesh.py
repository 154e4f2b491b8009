"""Texts from a model on a mesh: those of one device, from two programs."""

import dataclasses

import jax
import pytest
from flax import nnx

from parallel import make_mesh
from tests.zipjax.model_cases import CASES, draw_model
from tests.zipjax.serve_cases import PROMPTS
from zipjax.models import load_model, save_model
from zipjax.serve import generate
from zipjax.serve.placement import places_of
from zipjax.serve.programs import programs


@pytest.mark.parametrize("name", ["mixtral", pytest.param("deepseek_v3", marks=pytest.mark.slow)])
def test_a_mesh_writes_what_one_device_writes(name, tmp_path):
    save_model(tmp_path, draw_model(dataclasses.replace(CASES[name], width=64, vocab_size=128)))
    spread = load_model(tmp_path, mesh=make_mesh({"expert": 4, "tensor": 2}))
    sizes = {"max_new_tokens": 8, "prefill_width": 16}
    assert generate(spread, PROMPTS, **sizes) == generate(load_model(tmp_path), PROMPTS, **sizes)

    graphdef, state = nnx.split(spread)
    places = places_of(spread)
    assert places is not None
    run = programs(graphdef, jax.tree.structure(state), places)
    assert (run.prefill._cache_size(), run.step._cache_size()) == (1, 1)
    heads_are_cut = any(places.heads.spec)
    assert heads_are_cut == (name == "mixtral")
