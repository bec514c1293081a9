"""The digits model through the engine: it draws digits with rung's kernels, and every platform draws the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import demo
import rung
from digits import numpy_builders
from digits.architecture import NULL_LABEL, load_weights
from digits.pipeline import OPS, SPECS, denoise, draw_noise, draw_sheet, sample_digits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from digits.pipeline import Form

FORMS: list[Form] = ["ode", "sde"]
LABELS = np.repeat(np.arange(10), 20)
NUMPY, ACCEL, TORCH = ("cpu", "generic", "numpy"), ("accel", "accel_v2", "numpy"), ("cpu", "generic", "torch")


@pytest.fixture(scope="module")
def table() -> rung.Table:
    return rung.load([demo.MANIFESTS], allow=["digits"])


def model(table: rung.Table, device: str, arch: str, arrays: str, dtype: str = "float32") -> rung.ModelInstance:
    platform = rung.Platform.of(device, arch, arrays=arrays, table=table)
    return rung.ModelInstance(platform, SPECS, data=load_weights(dtype=dtype))


@pytest.mark.parametrize("form", FORMS)
def test_a_classifier_fitted_on_real_digits_recognises_what_is_drawn(table: rung.Table, form: Form) -> None:
    images = sample_digits(model(table, "cpu", "generic", "numpy"), LABELS, form=form, seed=1)
    assert demo.recognised(images, LABELS.tolist()) >= 0.95


@pytest.mark.parametrize("arch", ["accel_v1", "accel_v2", "accel_v3"])
@pytest.mark.parametrize("form", FORMS)
def test_in_float64_the_stand_in_differs_by_roundings_alone_through_the_whole_loop(
    table: rung.Table, form: Form, arch: str
) -> None:
    labels = np.arange(10)
    noise, noises = draw_noise(len(labels), steps=8, seed=3, dtype="float64")
    made: list[Any] = []
    for place in (("cpu", "generic"), ("accel", arch)):
        instance = model(table, *place, "numpy", dtype="float64")
        latent = denoise(instance, labels, noise, steps=8, form=form, noises=noises)
        made += [latent, instance.component("vae").decode(latent)]
    assert made[0].dtype == np.float64
    np.testing.assert_allclose(made[2], made[0], rtol=0, atol=1e-12, strict=True)
    np.testing.assert_allclose(made[3], made[1], rtol=0, atol=1e-12, strict=True)


@pytest.mark.parametrize("other", [ACCEL, TORCH], ids=["accel", "torch"])
@pytest.mark.parametrize("form", FORMS)
def test_other_platforms_agree_with_numpy(table: rung.Table, form: Form, other: tuple[str, str, str]) -> None:
    labels = np.arange(10)
    drawn = [sample_digits(model(table, *place), labels, steps=10, form=form, seed=2) for place in (NUMPY, other)]
    np.testing.assert_allclose(drawn[1], drawn[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("guidance", "asked"), [(0.0, 2), (1.0, 1), (3.0, 2)])
def test_guidance_exaggerates_what_the_label_changes(table: rung.Table, guidance: float, asked: int) -> None:
    calls: list[float] = []

    def counted(instance: rung.ModelInstance) -> Callable[..., Any]:
        dit = numpy_builders.dit(instance)

        def call(latent: Any, embedding: Any, sigma: float) -> Any:
            calls.append(sigma)
            return dit(latent, embedding, sigma)

        return call

    specs = [rung.ComponentSpec("dit", "dit", counted), *(spec for spec in SPECS if spec.id != "dit")]
    platform = rung.Platform.of("cpu", "generic", arrays="numpy", table=table)
    instance = rung.ModelInstance(platform, specs, data=load_weights(dtype="float64"))
    labels, (noise, _) = np.array([3, 7]), draw_noise(2, steps=1, seed=0, dtype="float64")
    stepped = denoise(instance, labels, noise, steps=1, guidance=guidance)
    assert len(calls) == asked
    dit, encode = instance.component("dit"), instance.component("text_encoder")
    labelled, free = (dit(noise, encode(some), 1.0) for some in (labels, np.full(2, NULL_LABEL)))
    np.testing.assert_allclose(stepped, noise - (free + guidance * (labelled - free)), atol=1e-12)


@pytest.mark.parametrize(
    ("place", "backend"),
    [
        pytest.param(NUMPY, "reference", id="numpy"),
        pytest.param(ACCEL, "accel", id="accel"),
        pytest.param(("accel", "accel_v9", "numpy"), "accel", id="a later accel"),
        pytest.param(TORCH, "torch", id="torch"),
    ],
)
def test_every_op_is_served_on_the_spot(table: rung.Table, place: tuple[str, str, str], backend: str) -> None:
    device, arch, arrays = place
    platform = rung.Platform.of(device, arch, arrays=arrays, table=table)
    for outcome in (*map(platform.resolve, OPS), *(platform.resolve_component(spec.kind) for spec in SPECS)):
        assert not outcome.bridged
        assert not [fall for fall in outcome.falls if fall.level != "allow"]
    served = {op: platform.resolve(op).cell for op in OPS}
    assert {op: cell.backend for op, cell in served.items() if cell is not None} == dict.fromkeys(OPS, backend)


@pytest.mark.parametrize(
    ("place", "served"),
    [
        (NUMPY, {"text_encoder": "factory", "dit": "factory", "vae": "factory"}),
        (ACCEL, {"text_encoder": "factory", "dit": "digits_accel", "vae": "digits_accel"}),
        (TORCH, dict.fromkeys(("text_encoder", "dit", "vae"), "digits_torch")),
    ],
    ids=["numpy", "accel", "torch"],
)
def test_components_are_overridden_kind_by_kind(
    table: rung.Table, place: tuple[str, str, str], served: dict[str, str]
) -> None:
    device, arch, arrays = place
    platform = rung.Platform.of(device, arch, arrays=arrays, table=table)
    chosen = {kind: platform.resolve_component(kind).cell for kind in served}
    assert {kind: cell.id.partition("/")[0] for kind, cell in chosen.items() if cell is not None} == served


def test_the_sheet_is_a_picture(table: rung.Table, tmp_path: Path) -> None:
    from PIL import Image

    images = sample_digits(model(table, "cpu", "generic", "numpy"), np.arange(10), steps=2, seed=0)
    draw_sheet(images, np.arange(10), tmp_path / "digits.png")
    with Image.open(tmp_path / "digits.png") as sheet:
        assert sheet.format == "PNG"
        assert min(sheet.size) > 50


def test_the_demo_runs_and_says_what_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "digits.png"
    monkeypatch.setattr("sys.argv", ["demo.py", "--output", str(output), "--each", "1", "--steps", "4"])
    demo.main()
    out = capsys.readouterr().out
    assert output.stat().st_size > 1000
    assert "digits_accel/vae@accel#default" in out
    assert "accel/attention@accel.numpy#default" in out
    assert "fall on" not in out
    assert "factory/text_encoder@any#default" in out
    assert "differs from the reference by" in out
