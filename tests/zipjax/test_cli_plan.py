"""`zipjax plan`: tables, files, and mistakes on the command line."""

import json

import pytest

from parallel.planner import MACHINES, machine_to_json, plan_from_json
from zipjax.cli import main
from zipjax.cli.plan import workload_of
from zipjax.models import CausalConfig, LatentConfig, MlpConfig, RopeConfig, SparseConfig

CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_act": "silu",
    "vocab_size": 1000,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 3,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "max_position_embeddings": 40960,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def run(folder, *more, mesh="8x8", machine="h200") -> int:
    arguments = ["plan", "--model", folder, "--mesh", mesh, "--machine", machine, *more]
    return main([str(argument) for argument in arguments])


def test_a_table_and_a_line(folder, capsys):
    assert run(folder) == 0
    out, err = capsys.readouterr()
    for strategy in ("sequential", "pipemoe", "fsmoe", "schemoe", "mast", "combined"):
        assert strategy in out
    assert "3 layers, train, mesh 8x8 of machine h200" in out
    assert err.startswith("Planned 3 layers on 64 devices: ") and err.count("\n") == 1


def test_json_is_the_plan(folder, capsys):
    assert run(folder / "config.json", "--json", "--quiet", "--mode", "forward") == 0
    out, err = capsys.readouterr()
    found = plan_from_json(out)
    assert err == "" and found.workload.mode == "forward" and found.workload.num_experts == 128


def test_files(folder, capsys):
    (folder / "mine.json").write_text(machine_to_json(MACHINES["fsmoe-b"]))
    files = [folder / name for name in ("plan.json", "trace.json", "timeline.png")]
    flags = ["--plan", files[0], "--trace", files[1], "--timeline", files[2]]
    assert run(folder, *flags, machine=folder / "mine.json", mesh="8x4") == 0
    found = plan_from_json(files[0].read_text())
    assert found.machine == "fsmoe-b" and found.workload.num_intra == 4
    events = [e for e in json.loads(files[1].read_text())["traceEvents"] if e["ph"] == "X"]
    last_us = max(event["ts"] + event["dur"] for event in events)
    assert last_us == pytest.approx(found.seconds * 1e6, rel=1e-9)
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert run(folder, *flags) == 2
    assert "--force" in capsys.readouterr().err
    assert run(folder, *flags, "--force") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh": "8"}, "8x8"),
        ({"mesh": "0x8"}, "8x8"),
        ({"machine": "cray-1"}, "known machines are"),
        ({"mesh": "3x5"}, "places of experts"),
    ],
)
def test_mistakes(folder, capsys, arguments, message):
    assert run(folder, **arguments) == 2
    assert message in capsys.readouterr().err


def test_a_broken_machine_file_and_a_dense_model(folder, capsys):
    (folder / "broken.json").write_text("{}")
    assert run(folder, machine=folder / "broken.json") == 2
    assert "version 1" in capsys.readouterr().err
    mixture = {"moe_intermediate_size", "num_experts", "num_experts_per_tok", "norm_topk_prob"}
    dense = {name: value for name, value in CONFIG.items() if name not in mixture}
    (folder / "config.json").write_text(json.dumps(dense | {"model_type": "qwen3"}))
    assert run(folder) == 2
    assert "mixtures" in capsys.readouterr().err


def test_a_model_with_latent_attention_and_dense_layers():
    """As DeepSeek-V3: only mixtures are planned, each with its shared expert."""
    sparse = SparseConfig(num_experts=256, num_selected=8, hidden=2048, shared_hidden=2048)
    config = CausalConfig(
        architecture="deepseek_v3",
        vocab_size=1000,
        width=7168,
        attention=LatentConfig(
            num_heads=128,
            query_rank=1536,
            latent_rank=512,
            nope_dim=128,
            rope_dim=64,
            value_dim=128,
        ),
        feed_forward=(MlpConfig(hidden=18432),) * 3 + (sparse,) * 58,
        windows=(None,) * 61,
        rope=RopeConfig(),
    )
    workload = workload_of(config, num_inter=8, num_intra=8)
    assert (workload.num_layers, workload.num_experts, workload.shared_hidden) == (58, 256, 2048)
    assert (workload.num_kv_heads, workload.head_dim) == (128, 192)
