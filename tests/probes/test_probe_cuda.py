from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from probes.fakes import HOSTS, Card, FakeHost, FakeNvml
from rung.facts import DeviceFact
from rung.probes import cuda
from rung.probes.host import Host

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence
    from pathlib import Path

PRO = "GPU-1111aaaa-0000-4000-8000-000000000001"
GB300 = "GPU-2222bbbb-0000-4000-8000-000000000002"
MIG = "MIG-3333cccc-0000-4000-8000-000000000003"
# The display card comes first on the bus, the fast one second: the box that ran at a tenth of its speed.
MIXED = [
    Card((12, 0), "NVIDIA RTX PRO 4000 Blackwell", PRO, "00000000:01:00.0"),
    Card((10, 3), "NVIDIA GB300", GB300, "00000009:06:00.0", (MIG,)),
]
H200 = [
    Card((9, 0), "NVIDIA H200", f"GPU-h200-{n}", f"00000000:{bus}:00.0") for n, bus in enumerate(("1A", "3C", "DB"))
]


def box(nvml: FakeNvml, env: dict[str, str] | None = None, child: object = None) -> FakeHost:
    def run(command: Sequence[str]) -> str:
        assert command[0] == sys.executable
        if isinstance(child, Exception):
            raise child
        return json.dumps(child)

    libraries = {"libnvidia-ml.so.1": nvml}
    return FakeHost(env=env, root=HOSTS / "nvidia", libraries=libraries, child=run if child is not None else None)


def asked(uuid: str, arch: str, pci: str = "0000:01:00.0") -> dict[str, str]:
    return {"arch": arch, "name": "", "uuid": uuid, "pci": pci, "runtime": "13.0"}


def test_a_card() -> None:
    nvml = FakeNvml(H200[:1])
    assert cuda.detect(box(nvml)) == (
        DeviceFact(
            "sm_90",
            name="NVIDIA H200",
            uuid="GPU-h200-0",
            pci="0000:1a:00.0",
            driver="580.159",
            runtime="13.0",
            index=0,
        ),
    )
    assert nvml.open_sessions == 0


@pytest.mark.parametrize(
    ("arch", "name"), [((7, 5), "sm_75"), ((8, 9), "sm_89"), ((10, 0), "sm_100"), ((12, 1), "sm_121")]
)
def test_the_arch_is_the_capability(arch: tuple[int, int], name: str) -> None:
    (card,) = cuda.detect(box(FakeNvml([Card(arch, "", "GPU-0", "00000000:01:00.0")])))
    assert card.arch == name


@pytest.mark.parametrize(
    ("listed", "uuids"),
    [
        pytest.param(None, ["GPU-h200-0", "GPU-h200-1", "GPU-h200-2"], id="unset"),
        pytest.param("", [], id="empty"),
        pytest.param("-1", [], id="minus-one"),
        pytest.param("1", ["GPU-h200-1"], id="one"),
        pytest.param("2,0", ["GPU-h200-2", "GPU-h200-0"], id="reordered"),
        pytest.param("0,7,1", ["GPU-h200-0"], id="ends-at-the-first-invalid"),
        pytest.param("0,0", [], id="a-repeat-hides-all"),
        pytest.param("GPU-h200-2", ["GPU-h200-2"], id="uuid"),
        pytest.param("GPU-h200-2,GPU-h200-0", ["GPU-h200-2", "GPU-h200-0"], id="uuids"),
        pytest.param("GPU-h200", [], id="ambiguous-prefix"),
        pytest.param("GPU-h200-1,0", ["GPU-h200-1"], id="uuids-then-a-number"),
        pytest.param("0,GPU-h200-1", ["GPU-h200-0"], id="numbers-then-a-uuid"),
        pytest.param("NoDevFiles", [], id="no-form-at-all"),
    ],
)
def test_visibility(listed: str | None, uuids: list[str]) -> None:
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    left = cuda.detect(box(FakeNvml(H200), env))
    assert [card.uuid for card in left] == uuids
    assert [card.index for card in left] == list(range(len(uuids)))


def test_container_variables_are_not_cudas() -> None:
    assert len(cuda.detect(box(FakeNvml(H200), {"NVIDIA_VISIBLE_DEVICES": "none"}))) == 3


def test_cards_come_in_bus_order() -> None:
    left = cuda.detect(box(FakeNvml(H200[::-1])))
    assert [card.pci for card in left] == ["0000:1a:00.0", "0000:3c:00.0", "0000:db:00.0"]


class TestUnlikeCards:
    def test_cuda_is_asked_which_is_first(self) -> None:
        answer = [asked(GB300, "sm_103", "0009:06:00.0"), asked(PRO, "sm_120")]
        first, second = cuda.detect(box(FakeNvml(MIXED), child=answer))
        assert (first.arch, first.uuid, first.index) == ("sm_103", GB300, 0)
        assert (second.arch, second.uuid, second.index) == ("sm_120", PRO, 1)
        assert (first.driver, first.runtime, first.pci) == ("580.159", "13.0", "0009:06:00.0")

    def test_the_child_sees_what_is_hidden(self) -> None:
        env = {"CUDA_VISIBLE_DEVICES": "0"}
        (card,) = cuda.detect(box(FakeNvml(MIXED), env, child=[asked(GB300, "sm_103")]))
        assert (card.arch, card.index) == ("sm_103", 0)

    def test_a_mig_instance_in_the_answer(self) -> None:
        (card,) = cuda.detect(box(FakeNvml(MIXED), child=[asked(MIG.replace("MIG-", "GPU-"), "sm_103")]))
        assert card.uuid == MIG

    @pytest.mark.parametrize(
        ("env", "uuids"),
        [
            ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [PRO, GB300]),
            ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, [GB300]),
            ({"CUDA_VISIBLE_DEVICES": f"{GB300},{PRO}"}, [GB300, PRO]),
            ({"CUDA_VISIBLE_DEVICES": "GPU-2222"}, [GB300]),
            ({"CUDA_VISIBLE_DEVICES": ""}, []),
            ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ],
        ids=["bus-order", "bus-order-hidden", "uuids", "uuid-prefix", "empty", "minus-one"],
    )
    def test_nobody_is_asked_where_the_order_is_known(self, env: dict[str, str], uuids: list[str]) -> None:
        left = cuda.detect(box(FakeNvml(MIXED), env))
        assert [card.uuid for card in left] == uuids
        assert [card.index for card in left] == list(range(len(uuids)))

    @pytest.mark.parametrize("env", [{}, {"CUDA_VISIBLE_DEVICES": "0"}], ids=["all", "hidden"])
    def test_an_unknown_order_is_said(self, env: dict[str, str]) -> None:
        child = TimeoutError("`python` took longer than 1.5 s")
        left = cuda.detect(box(FakeNvml(MIXED), env, child=child))
        assert [card.index for card in left] == [None, None]
        assert {card.arch for card in left} == {"sm_103", "sm_120"}
        assert all(card.note.endswith("is not known: `python` took longer than 1.5 s") for card in left)

    @pytest.mark.parametrize("answer", ["nonsense", [{"uuid": PRO}], [{**asked(PRO, "sm_120"), "more": "1"}], [7]])
    def test_an_answer_nobody_understands(self, answer: object) -> None:
        left = cuda.detect(box(FakeNvml(MIXED), child=answer))
        assert all("was not understood" in card.note for card in left)


class TestMig:
    @pytest.mark.parametrize(
        ("listed", "uuid"),
        [
            pytest.param(MIG, MIG, id="by-its-own-uuid"),
            pytest.param(f"MIG-{GB300}/1/0", f"MIG-{GB300}/1/0", id="by-its-cards-uuid"),
            pytest.param(f"{MIG},MIG-other", MIG, id="one-of-several"),
        ],
    )
    def test_an_instance_has_its_cards_arch(self, listed: str, uuid: str) -> None:
        (card,) = cuda.detect(box(FakeNvml(MIXED), {"CUDA_VISIBLE_DEVICES": listed}))
        assert (card.arch, card.uuid, card.index) == ("sm_103", uuid, 0)
        assert card.note == f"a MIG instance of {GB300}"

    @pytest.mark.parametrize("listed", ["MIG-9999", "MIG-GPU-9999/1/0"])
    def test_an_instance_that_is_not_there_hides_all(self, listed: str) -> None:
        assert cuda.detect(box(FakeNvml(MIXED), {"CUDA_VISIBLE_DEVICES": listed})) == ()

    def test_an_old_driver_cannot_tell(self) -> None:
        nvml = FakeNvml(MIXED, lacks=("nvmlDeviceGetHandleByUUID",))
        with pytest.raises(OSError, match="no nvmlDeviceGetHandleByUUID"):
            cuda.detect(box(nvml, {"CUDA_VISIBLE_DEVICES": MIG}))
        assert nvml.open_sessions == 0


class TestAbsence:
    def test_no_library(self) -> None:
        assert cuda.detect(FakeHost()) == ()

    @pytest.mark.parametrize("system", ["darwin", "windows"])
    def test_elsewhere(self, system: str) -> None:
        assert cuda.detect(FakeHost(system=system)) == ()

    @pytest.mark.parametrize("code", [9, 12], ids=["driver-not-loaded", "stub-library"])
    def test_a_library_without_a_driver(self, code: int) -> None:
        nvml = FakeNvml(H200, fails={"nvmlInit_v2": code})
        assert cuda.detect(box(nvml)) == ()
        assert nvml.calls == ["nvmlInit_v2"]

    def test_no_cards(self) -> None:
        assert cuda.detect(box(FakeNvml([]))) == ()


class TestFailure:
    @pytest.mark.parametrize(
        ("function", "code", "words"),
        [
            (
                "nvmlInit_v2",
                18,
                "nvmlInit_v2 failed with 18: the driver and its library are of different versions",
            ),
            ("nvmlDeviceGetCount_v2", 999, "nvmlDeviceGetCount_v2 failed with 999"),
            ("nvmlDeviceGetHandleByIndex_v2", 15, "failed with 15: the GPU is lost"),
            ("nvmlDeviceGetCudaComputeCapability", 3, "failed with 3: not supported"),
        ],
    )
    def test_a_driver_that_does_not_answer(self, function: str, code: int, words: str) -> None:
        nvml = FakeNvml(H200, fails={function: code})
        with pytest.raises(OSError, match=words):
            cuda.detect(box(nvml))
        assert nvml.calls.count("nvmlShutdown") == (function != "nvmlInit_v2")

    def test_an_old_driver(self) -> None:
        with pytest.raises(OSError, match="too old: its NVML has no nvmlDeviceGetPciInfo_v3"):
            cuda.detect(box(FakeNvml(H200, lacks=("nvmlDeviceGetPciInfo_v3",))))


class TestWithoutNvml:
    """A container given the compute capability only, or a Jetson: CUDA is there and NVML is not."""

    @pytest.mark.parametrize("node", ["dev/nvidia0", "dev/nvhost-gpu", "usr/lib/wsl/lib/libcuda.so.1"])
    def test_cuda_is_asked(self, node: str, tmp_path: Path) -> None:
        (tmp_path / node).parent.mkdir(parents=True)
        (tmp_path / node).touch()
        answer = json.dumps([asked("GPU-0", "sm_87")])
        (card,) = cuda.detect(FakeHost(root=tmp_path, child=lambda _: answer))
        assert (card.arch, card.runtime, card.driver, card.index) == ("sm_87", "13.0", "", 0)

    def test_a_control_node_alone_is_no_card(self, tmp_path: Path) -> None:
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev" / "nvidiactl").touch()
        assert cuda.detect(FakeHost(root=tmp_path)) == ()

    def test_a_card_nobody_can_ask(self, tmp_path: Path) -> None:
        def broken(_: Sequence[str]) -> str:
            raise OSError("`python` ended with 1: libcuda.so.1: cannot open shared object file")

        (tmp_path / "dev").mkdir()
        (tmp_path / "dev" / "nvidia0").touch()
        with pytest.raises(OSError, match="cannot open shared object file"):
            cuda.detect(FakeHost(root=tmp_path, child=broken))


# A driver in C, so that the real ctypes calls and the real child process meet a real shared library. NVML
# counts the card of capability 12.0 first, CUDA the one of 10.3, unless FAKE_CUDA_ERROR makes cuInit fail.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
static const int cc[2][2] = {{12, 0}, {10, 3}};
static const char *slot[2] = {"00000000:01:00.0", "00000009:06:00.0"};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.159"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13020; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(0x7f0000000000 + i); return 0; }
static int at(void *h) { return (int)((size_t)h - 0x7f0000000000); }
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    *major = cc[at(h)][0];
    *minor = cc[at(h)][1];
    return 0;
}
int nvmlDeviceGetName(void *h, char *s, unsigned n) { snprintf(s, n, "card %d", at(h)); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, struct pci *p) { strcpy(p->bus_id, slot[at(h)]); p->bus = 1; return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
    snprintf(s, n, "GPU-%08x-0102-0304-0506-0708090a0b0c", at(h));
    return 0;
}

int cuInit(unsigned flags) { const char *e = getenv("FAKE_CUDA_ERROR"); return e ? atoi(e) : 0; }
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuDeviceGetCount(int *n) { *n = getenv("CUDA_VISIBLE_DEVICES") ? 1 : 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = 1 - i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "card %d", d); return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "%s", slot[d] + 4); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = cc[d][a - 75]; return 0; }
int cuDeviceGetUuid_v2(unsigned char *u, int d) {
    for (int i = 0; i < 16; i++) u[i] = i < 3 ? 0 : i - 3;
    u[3] = d;
    return 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libfake.so"
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", str(library), str(folder / "driver.c")], check=True)
    return str(library)


class RealChild(Host):
    """A host whose NVIDIA libraries are one made-up file; everything else is real."""

    driver = ""

    def library(self, *names: str) -> ctypes.CDLL:
        return super().library(self.driver)

    def run(self, command: Sequence[str], *, limit: float = 1.5) -> str:
        return super().run([self.driver if ".so" in word else word for word in command], limit=30)


def real_box(driver: str, env: dict[str, str]) -> Host:
    kind = type("Box", (RealChild,), {"driver": driver})
    host: Host = kind(system="linux", env=env, root=HOSTS / "nvidia")
    return host


class TestRealCalls:
    def test_cuda_and_nvml_agree_on_who_is_who(self, driver: str) -> None:
        first, second = cuda.detect(real_box(driver, {}))
        assert (first.arch, first.name, first.pci, first.index) == ("sm_103", "card 1", "0009:06:00.0", 0)
        assert (second.arch, second.name, second.pci, second.index) == ("sm_120", "card 0", "0000:01:00.0", 1)
        assert first.uuid == "GPU-00000001-0102-0304-0506-0708090a0b0c"
        assert (first.driver, first.runtime) == ("580.159", "13.2")

    def test_the_child_gets_the_environment(self, driver: str) -> None:
        (card,) = cuda.detect(real_box(driver, {"CUDA_VISIBLE_DEVICES": "0"}))
        assert card.arch == "sm_103"

    @pytest.mark.skipif(sys.platform != "linux", reason="the dynamic linker of Linux")
    @pytest.mark.parametrize(
        ("library", "question"),
        [
            ("libnvidia-ml.so.1", "cuda.detect(host)"),
            ("libcuda.so.1", "cuda.ask_cuda(host)"),
        ],
        ids=["nvml", "cuda"],
    )
    def test_a_library_that_does_not_load_is_not_no_device(self, library: str, question: str, tmp_path: Path) -> None:
        (tmp_path / library).write_bytes(b"garbage" * 100)
        program = f"""
from rung.probes import cuda
from rung.probes.host import Host

class Patient(Host):
    def run(self, command):
        return super().run(command, limit=30)

host = Patient(root={str(HOSTS / "nvidia")!r})
try:
    print({question})
except OSError as error:
    print(error)
"""
        env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        assert f"{tmp_path / library}: invalid ELF header" in done.stdout

    def test_bus_order_needs_no_child(self, driver: str) -> None:
        env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "FAKE_CUDA_ERROR": "999"}
        assert [card.arch for card in cuda.detect(real_box(driver, env))] == ["sm_120", "sm_103"]

    def test_cuda_sees_no_card(self, driver: str) -> None:
        assert cuda.detect(real_box(driver, {"FAKE_CUDA_ERROR": "100"})) == ()

    def test_cuda_fails(self, driver: str) -> None:
        left = cuda.detect(real_box(driver, {"FAKE_CUDA_ERROR": "802"}))
        assert [card.index for card in left] == [None, None]
        assert all(card.note.endswith("cuInit failed with 802") for card in left)
