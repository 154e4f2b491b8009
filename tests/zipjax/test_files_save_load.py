"""Save and load: dtypes, shapes, names, ties, metadata, structure."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import zipjax
from zipjax import ArgumentError, CompressedTensor, FormatError, UnsupportedError


def _weights(shape, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, shape).astype(dtype)


def _same(got, want) -> bool:
    got, want = np.asarray(got), np.asarray(want)
    return (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


TREE = {
    "embed": _weights((300, 64), ml_dtypes.bfloat16),
    "layers": [{"w": _weights((64, 64)), "b": np.zeros(64, np.float32)}, {"w": np.arange(7)}],
    "step": np.asarray(12, np.int64),
    "none": np.zeros((0, 3), np.float16),
    "mask": np.array([True, False]),
    "z": np.array([1 + 2j], np.complex64),
    "d": np.array([np.nan, -0.0, np.inf], np.float64),
}


def test_a_tree_comes_back_by_name_and_by_structure(tmp_path):
    path = tmp_path / "model.zipj"
    zipjax.save(path, TREE)
    with zipjax.load(path) as tensors:
        assert list(tensors) == [
            "embed", "layers.0.w", "layers.0.b", "layers.1.w", "step", "none", "mask", "z", "d",
        ]  # fmt: skip
        assert _same(tensors["layers.0.w"], TREE["layers"][0]["w"])
        assert len(tensors) == 9 and "embed" in tensors and "nobody" not in tensors
    back = zipjax.load(path, like=TREE)
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    assert jax.tree.all(jax.tree.map(_same, back, TREE))


def test_a_dict_keeps_its_names_and_a_lone_array_is_called_value(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"x.y": np.arange(3)})
    assert list(zipjax.load(tmp_path / "a.zipj")) == ["x.y"]
    zipjax.save(tmp_path / "b.zipj", np.arange(3))
    assert list(zipjax.load(tmp_path / "b.zipj")) == ["value"]
    assert _same(zipjax.load(tmp_path / "b.zipj", like=np.zeros(3, int)), np.arange(3))


def test_jax_arrays_come_back_as_jax_arrays_on_their_sharding(tmp_path):
    x = jnp.asarray(_weights((8, 32), ml_dtypes.bfloat16))
    zipjax.save(tmp_path / "a.zipj", {"x": x})
    for like in (x, jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)):
        back = zipjax.load(tmp_path / "a.zipj", like={"x": like})["x"]
        assert isinstance(back, jax.Array) and back.sharding == x.sharding
        assert _same(back, x)
    assert isinstance(zipjax.load(tmp_path / "a.zipj")["x"], np.ndarray)


def test_saving_leaves_no_host_copy_in_the_array(tmp_path):
    x = jnp.ones(1000) + 1
    zipjax.save(tmp_path / "a.zipj", {"x": x})
    assert getattr(x, "_npy_value", None) is None


def test_compressed_tensors_are_stored_as_they_are(tmp_path):
    w = _weights((64, 65))
    tensor = zipjax.compress(w)
    zipjax.save(tmp_path / "a.zipj", {"w": tensor})
    assert _same(zipjax.load(tmp_path / "a.zipj")["w"], w)
    back = zipjax.load(tmp_path / "a.zipj", like={"w": tensor})["w"]
    assert isinstance(back, CompressedTensor)
    for name, stream in tensor.streams.items():
        assert _same(back.streams[name], stream)


def test_a_tensor_whose_streams_were_sorted_by_a_tree_map_is_stored_in_order(tmp_path):
    tensor = jax.tree.map(jnp.asarray, zipjax.compress(_weights((64, 65), np.float16)))
    zipjax.save(tmp_path / "a.zipj", {"w": tensor})
    assert _same(zipjax.load(tmp_path / "a.zipj")["w"], zipjax.decompress(tensor))


def test_equal_tensors_are_stored_once_and_tied_leaves_come_back_tied(tmp_path):
    w = _weights((64, 64))
    tree = {"a": w, "b": w, "c": w.copy(), "d": w.reshape(32, 128)}
    summary = zipjax.save(tmp_path / "a.zipj", tree)
    assert [tensor.same_as for tensor in summary.tensors] == [None, "a", "a", None]
    assert summary.raw_nbytes == 4 * w.nbytes
    back = zipjax.load(tmp_path / "a.zipj", like=tree)
    assert back["a"] is back["b"] and back["a"] is not back["c"]
    assert jax.tree.all(jax.tree.map(_same, back, tree))


def test_tensors_with_equal_digests_and_other_bytes_are_not_tied(tmp_path, monkeypatch):
    monkeypatch.setattr("zipjax.files.saving.tensor_digest", lambda x: "0" * 32)
    tree = {"a": np.arange(5), "b": np.arange(5) + 1}
    assert [t.same_as for t in zipjax.save(tmp_path / "a.zipj", tree).tensors] == [None, None]


def test_metadata_is_kept(tmp_path):
    metadata = {"license": "Apache-2.0", "": "", "\u91cd": 'a "quoted"\nline'}
    zipjax.save(tmp_path / "a.zipj", TREE, metadata=metadata)
    assert zipjax.inspect(tmp_path / "a.zipj").metadata == metadata
    assert zipjax.load(tmp_path / "a.zipj").metadata == metadata


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": "\ud800"}])
def test_metadata_that_is_no_text_is_refused(tmp_path, metadata):
    with pytest.raises(ArgumentError, match="text"):
        zipjax.save(tmp_path / "a.zipj", TREE, metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_tree_makes_an_empty_file(tmp_path):
    assert zipjax.save(tmp_path / "a.zipj", {}).tensors == ()
    assert dict(zipjax.load(tmp_path / "a.zipj")) == {}
    assert zipjax.load(tmp_path / "a.zipj", like={}) == {}


def test_every_read_is_a_new_array(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"x": np.arange(5)})
    with zipjax.load(tmp_path / "a.zipj") as tensors:
        tensors["x"][:] = 0
        assert _same(tensors["x"], np.arange(5))


def test_saving_twice_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        zipjax.save(tmp_path / name, TREE)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_names_choose_tensors_and_a_wrong_one_is_explained(tmp_path):
    zipjax.save(tmp_path / "a.zipj", TREE)
    with zipjax.load(tmp_path / "a.zipj", names=["step", "mask"]) as tensors:
        assert list(tensors) == ["step", "mask"]
        with pytest.raises(KeyError):
            tensors["embed"]
    with pytest.raises(ArgumentError, match="did you mean 'embed'"):
        zipjax.load(tmp_path / "a.zipj", names=["embedd"])
    with pytest.raises(ArgumentError, match="several names"):
        zipjax.load(tmp_path / "a.zipj", names="embed")
    part = {"step": TREE["step"]}
    assert _same(zipjax.load(tmp_path / "a.zipj", names=["step"], like=part)["step"], 12)


@pytest.mark.parametrize(
    "like, text",
    [
        ({"x": np.zeros(4, np.int64)}, "must be int64.4. as in the tree; got int64.3."),
        ({"x": np.zeros(3, np.int32)}, "must be int32.3."),
        ({"x": np.zeros(3, int), "y": np.zeros(1)}, "must have a tensor 'y'"),
        ({}, "place for every tensor"),
    ],
)
def test_a_tree_that_does_not_fit_is_explained(tmp_path, like, text):
    zipjax.save(tmp_path / "a.zipj", {"x": np.arange(3)})
    with pytest.raises(ArgumentError, match=text):
        zipjax.load(tmp_path / "a.zipj", like=like)


def test_jax_cannot_silently_narrow_what_is_restored(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"x": np.arange(3)})
    like = {"x": jax.ShapeDtypeStruct((3,), np.int64)}
    with pytest.raises(ArgumentError, match="x64"):
        zipjax.load(tmp_path / "a.zipj", like=like)


def test_leaves_that_would_share_a_name_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"'a\.b' twice"):
        zipjax.save(tmp_path / "a.zipj", {"a": {"b": np.arange(2)}, "a.b": np.arange(3)})


@pytest.mark.parametrize("name", ["", "../x", "a\0"])
def test_a_bad_name_is_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(FormatError):
        zipjax.save(tmp_path / "a.zipj", {name: np.arange(2), "b": np.arange(3)})
    assert list(tmp_path.iterdir()) == []


def test_a_dtype_that_cannot_be_stored_leaves_the_old_file(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"x": np.arange(2)})
    before = (tmp_path / "a.zipj").read_bytes()
    with pytest.raises(UnsupportedError, match="astype"):
        zipjax.save(tmp_path / "a.zipj", {"x": np.arange(2), "y": np.zeros(2, ">f4")})
    assert (tmp_path / "a.zipj").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.zipj"]
