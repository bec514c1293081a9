"""The digits model through the engine: it draws digits, and every platform draws the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import demo
import rung
from digits.architecture import load_weights
from digits.pipeline import SPECS, denoise, draw_noise, draw_sheet, sample_digits

if TYPE_CHECKING:
    from pathlib import Path

    from digits.pipeline import Form

FORMS: list[Form] = ["ode", "sde"]
LABELS = np.repeat(np.arange(10), 20)


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
def test_the_stand_in_equals_the_cpu_bit_for_bit_through_the_whole_loop(
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
    assert np.array_equal(made[0], made[2])
    assert np.array_equal(made[1], made[3])


@pytest.mark.parametrize("form", FORMS)
def test_torch_agrees_with_numpy(table: rung.Table, form: Form) -> None:
    labels = np.arange(10)
    drawn = [
        sample_digits(model(table, "cpu", "generic", arrays), labels, steps=10, form=form, seed=2)
        for arrays in ("numpy", "torch")
    ]
    np.testing.assert_allclose(drawn[1], drawn[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("place", "served"),
    [
        (("cpu", "generic", "numpy"), {"text_encoder": "factory", "dit": "factory", "vae": "factory"}),
        (("accel", "accel_v2", "numpy"), {"text_encoder": "factory", "dit": "digits_accel", "vae": "digits_accel"}),
        (("cpu", "generic", "torch"), dict.fromkeys(("text_encoder", "dit", "vae"), "digits_torch")),
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
    assert "factory/text_encoder@any#default" in out
    assert "differs from the reference by" in out
