"""Draw digits on every platform usable here, say what served, and write a contact sheet.

Owns the report. The model and its loop are in `digits.pipeline`, and name no device.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import rung
from digits.architecture import load_weights
from digits.pipeline import OPS, SPECS, draw_sheet, sample_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from digits.architecture import FloatArray
    from digits.pipeline import Form

FORMS: tuple[Form, ...] = ("ode", "sde")
MANIFESTS = Path(__file__).parent / "manifests"


def platforms(table: rung.Table) -> Iterator[tuple[str, rung.Platform]]:
    """Give what this machine can run: numpy, the stand-in, torch on the CPU, and each GPU that really serves."""
    yield "numpy", rung.Platform.of("cpu", "generic", arrays="numpy", table=table)
    yield "accel", rung.Platform.of("accel", "accel_v2", table=table)
    for device in reversed(table.profiles["default"].devices):
        name = "torch" if device == "cpu" else device
        try:
            found = rung.detect(device=device, arrays="torch", table=table)
        except rung.DeviceNotFound as error:
            print(f"\n{name}\n  not usable here: {error}")
            continue
        outcome = found.resolve("cfg_flow_match_step")
        if outcome.cell is not None and outcome.cell.device == device and outcome.cell.arrays == "torch":
            yield name, found
        else:
            print(f"\n{name}\n  not usable here: {outcome.rungs[0].reason}")


def report(platform: rung.Platform) -> None:
    """Print the platform, and the ladder of every op and component of the model down to the rung that serves."""
    print(f"  {platform!r}, devices in order: {', '.join(platform.device_chain)}")
    for op in OPS:
        ladder(platform.resolve(op))
    for spec in SPECS:
        ladder(platform.resolve_component(spec.kind))


def ladder(outcome: rung.Resolution) -> None:
    """Print one resolution: what serves, and why each rung before it does not."""
    serving = outcome.cell.id if outcome.cell is not None else "nothing"
    print(f"    {outcome.request:<20} {serving}{' (bridged)' if outcome.bridged else ''}")
    for passed in outcome.rungs:
        if passed.verdict in ("no", "unknown", "broken"):
            print(f"    {'':<20}   passed over {passed.cell.id}: {passed.verdict}, {passed.reason}")
    for other in outcome.not_offered:
        print(f"    {'':<20}   not offered  {other.cell.id}: {other.reason}")
    for fall in outcome.falls:
        print(f"    {'':<20}   fall on {fall.axis} ({fall.level}): {fall.reason}")


def recognised(images: FloatArray, labels: Sequence[int]) -> float:
    """Give the share of images that a logistic regression, fitted on the real digits, takes for their label."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    real = load_digits()
    judge = LogisticRegression(max_iter=5000).fit(real.data / 16.0, real.target)
    return float((judge.predict(np.clip(images, 0, 1).reshape(len(images), -1)) == np.asarray(labels)).mean())


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="default: digits.png")
    parser.add_argument("--each", type=int, default=4, help="digits of a kind per platform and form (default 4)")
    parser.add_argument("--steps", type=int, default=25, help="denoising steps (default 25)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="also show what rung logs")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="  [%(name)s] %(message)s")

    table = rung.load([MANIFESTS], allow=["digits"])
    weights = load_weights()
    labels = np.repeat(np.arange(10), options.each)
    drawn: list[FloatArray] = []
    captions: list[str] = []
    reference: dict[str, FloatArray] = {}
    for name, platform in platforms(table):
        print(f"\n{name}" + (" (a stand-in written in Python, no hardware)" if name == "accel" else ""))
        report(platform)
        model = rung.ModelInstance(platform, SPECS, data=weights)
        for form in FORMS:
            begun = time.perf_counter()
            images = sample_digits(model, labels, steps=options.steps, form=form, seed=options.seed)
            seconds = time.perf_counter() - begun
            drawn.append(images)
            captions.append(f"{name} {form}")
            largest = float(np.abs(images - reference.setdefault(form, images)).max())
            versus = "is the reference" if name == "numpy" else f"differs from the reference by {largest:.3g} at most"
            print(f"    {form}: {len(labels)} digits in {seconds:.1f} s, {versus}")
    share = recognised(np.concatenate(drawn), np.tile(labels, len(drawn)).tolist())
    # A column block per platform and form: of each digit, all blocks in order.
    order = np.argsort(np.tile(labels, len(drawn)), kind="stable")
    every = np.tile(labels, len(drawn))
    draw_sheet(np.concatenate(drawn)[order], every[order], options.output, captions=captions)
    print(f"\na classifier fitted on real digits recognises {share:.1%} of them")
    print(f"wrote {options.output}: a row per digit, {options.each} columns per platform and form")


if __name__ == "__main__":
    main()
