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


async def conversation(folder):
    client = LanguageClient("test", "1")
    told = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params):
        told.put_nowait(params)

    await client.start_io(sys.executable, "-m", "tenure", "server", "--stdio")
    try:
        uri = (folder / "train.py").as_uri()
        await client.initialize_async(
            lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=folder.as_uri())
        )
        client.initialized(lsp.InitializedParams())
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, SOURCE)))
        first = await asyncio.wait_for(told.get(), 60)
        (diagnostic,) = first.diagnostics
        where = lsp.TextDocumentIdentifier(uri)
        context = lsp.CodeActionContext(diagnostics=[diagnostic])
        actions = await client.text_document_code_action_async(lsp.CodeActionParams(where, diagnostic.range, context))
        hover = await client.text_document_hover_async(lsp.HoverParams(where, diagnostic.range.start))
        (edit,) = actions[0].edit.changes[uri]
        lines = SOURCE.split("\n")
        row, column = edit.range.start.line, edit.range.start.character
        lines[row] = lines[row][:column] + edit.new_text + lines[row][edit.range.end.character :]
        fixed = "\n".join(lines)
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
