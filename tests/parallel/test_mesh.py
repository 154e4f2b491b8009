"""Meshes: order of devices, sizes that fit, errors for those that do not."""

from types import SimpleNamespace

import jax
import pytest
from jax.sharding import AxisType

import parallel
from pallas_kernels import ArgumentError


def test_axes_keep_their_order_and_are_auto():
    mesh = parallel.make_mesh({"slow": 2, "fast": 4})
    assert dict(mesh.shape) == {"slow": 2, "fast": 4}
    assert mesh.axis_names == ("slow", "fast")
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    assert list(mesh.devices.ravel()) == jax.devices()


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [({"a": -1}, (8,)), ({"a": 2, "b": -1, "c": 2}, (2, 2, 2)), ({"a": 8, "b": 1}, (8, 1))],
)
def test_minus_one_takes_the_rest(sizes, shape):
    assert parallel.make_mesh(sizes).devices.shape == shape


def test_some_devices():
    some = jax.devices()[2:5]
    assert list(parallel.make_mesh({"a": 3}, devices=some).devices) == some


def test_first_axis_crosses_processes(monkeypatch):
    """Devices as four processes with two each would list them, in an unlucky order."""
    devices = [
        SimpleNamespace(process_index=p, id=100 * p + d) for d in (1, 0) for p in (2, 0, 3, 1)
    ]
    monkeypatch.setattr("parallel.mesh.Mesh", lambda grid, names, axis_types: grid)
    grid = parallel.make_mesh({"slow": 4, "fast": 2}, devices=devices)
    assert [[device.process_index for device in row] for row in grid] == [[p, p] for p in range(4)]
    assert [device.id for device in grid[3]] == [300, 301]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "a mesh needs at least one axis"),
        ({"a": 3}, r"mesh axis sizes must multiply to the 8 devices; got {'a': 3}"),
        ({"a": 3, "b": -1}, r"mesh axis sizes must divide the 8 devices; got {'a': 3, 'b': -1}"),
        ({"a": -1, "b": -1}, r"only one mesh axis may have size -1; got \['a', 'b'\]"),
        ({"a": 0}, "the size of mesh axis 'a' must be a positive integer or -1; got 0"),
        ({"a": 2.0}, "the size of mesh axis 'a' must be a positive integer or -1; got 2.0"),
        ({"a": True}, "the size of mesh axis 'a' must be a positive integer or -1; got True"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ArgumentError, match=message):
        parallel.make_mesh(sizes)
