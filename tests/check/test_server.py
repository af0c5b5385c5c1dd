"""The language server, spoken to by a real client over standard input and output."""

import asyncio
import sys

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

SOURCE = """\
import torch


def train(model, loader, criterion):
    losses = []
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        losses.append(loss)
    return losses
"""


def applied(edit, source, encoding):
    """The source as an editor changes it, which counts columns in units of an encoding."""
    name, size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[encoding]
    lines = source.split("\n")
    assert edit.range.start.line == edit.range.end.line
    row = edit.range.start.line
    line = lines[row].encode(name)
    begin, end = (place.character * size for place in (edit.range.start, edit.range.end))
    lines[row] = line[:begin].decode(name) + edit.new_text + line[end:].decode(name)
    return "\n".join(lines)


async def conversation(folder, source=SOURCE, encodings=None):
    client = LanguageClient("test", "1")
    told = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params):
        told.put_nowait(params)

    await client.start_io(sys.executable, "-m", "tenure", "server", "--stdio")
    try:
        uri = (folder / "train.py").as_uri()
        general = lsp.GeneralClientCapabilities(position_encodings=encodings)
        capabilities = lsp.ClientCapabilities(general=general)
        await client.initialize_async(lsp.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri()))
        client.initialized(lsp.InitializedParams())
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, source)))
        first = await asyncio.wait_for(told.get(), 60)
        (diagnostic,) = first.diagnostics
        where = lsp.TextDocumentIdentifier(uri)
        context = lsp.CodeActionContext(diagnostics=[diagnostic])
        actions = await client.text_document_code_action_async(lsp.CodeActionParams(where, diagnostic.range, context))
        hover = await client.text_document_hover_async(lsp.HoverParams(where, diagnostic.range.start))
        (edit,) = actions[0].edit.changes[uri]
        fixed = applied(edit, source, encodings[0] if encodings else "utf-16")
        change = lsp.TextDocumentContentChangeWholeDocument(text=fixed)
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(version=2, uri=uri), [change])
        )
        second = await asyncio.wait_for(told.get(), 60)
        await client.shutdown_async(None)
        client.exit(None)
        return diagnostic, actions, hover, fixed, second
    finally:
        await client.stop()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_diagnostics_a_quick_fix_and_a_page(tmp_path):
    diagnostic, actions, hover, fixed, second = asyncio.run(conversation(tmp_path))
    assert (diagnostic.code, diagnostic.source, diagnostic.range.start.line) == ("TN301", "tenure", 8)
    assert actions[0].kind == lsp.CodeActionKind.QuickFix
    assert actions[0].is_preferred
    assert "losses.append(loss.detach())" in fixed
    assert "loss-accumulated-with-graph" in hover.contents.value
    assert not second.diagnostics


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_columns_are_counted_as_the_editor_counts_them(tmp_path, encoding):
    # A form feed is white space to Python and to editors, and a latin-1 cookie says nothing of text in an editor.
    source = "# coding: latin-1\n\f" + SOURCE.replace("losses.append", "note = '🎉🎉é'; losses.append")
    diagnostic, _, _, fixed, second = asyncio.run(conversation(tmp_path, source, [encoding]))
    assert "note = '🎉🎉é'; losses.append(loss.detach())\n" in fixed
    assert diagnostic.range.start.character == {"utf-16": 24, "utf-8": 29}[encoding]
    assert not second.diagnostics
