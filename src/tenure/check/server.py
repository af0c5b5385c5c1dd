"""The language server: findings as diagnostics, fixes as quick fixes, a fault's page on hover."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

import tenure
from tenure.check import settings as configured
from tenure.check.engine import check_source
from tenure.faults import FAULTS
from tenure.findings import Finding

_LEVELS = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "advice": lsp.DiagnosticSeverity.Information,
}


def make() -> LanguageServer:
    """A server, ready to be started."""
    server = LanguageServer("tenure", tenure.__version__)
    known: dict[str, list[Finding]] = {}

    def look(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        file = _path(uri)
        told = configured.made(configured.load(str(Path(file).parent)))
        known[uri] = check_source(document.source, file, told)
        diagnostics = [_diagnostic(finding) for finding in known[uri]]
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)  # type: ignore[untyped-decorator]
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        look(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)  # type: ignore[untyped-decorator]
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        look(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)  # type: ignore[untyped-decorator]
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        look(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)  # type: ignore[untyped-decorator]
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        known.pop(params.text_document.uri, None)

    kinds = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, kinds)  # type: ignore[untyped-decorator]
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        first, last = params.range.start.line + 1, params.range.end.line + 1
        return [
            _action(finding, uri) for finding in known.get(uri, [])
            if finding.main and first <= finding.main.line <= last and finding.fix and finding.fix.edits
        ]  # fmt: skip

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)  # type: ignore[untyped-decorator]
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        for finding in known.get(params.text_document.uri, []):
            if finding.main and finding.main.line == params.position.line + 1:
                fault = FAULTS[finding.code]
                text = f"**{fault.code} {fault.name}**\n\n{fault.page.strip()}"
                return lsp.Hover(contents=lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text))
        return None

    return server


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path) or uri


def _range(line: int, column: int | None, text: str) -> lsp.Range:
    start = (column or 1) - 1
    return lsp.Range(lsp.Position(line - 1, start), lsp.Position(line - 1, start + max(1, len(text) or 1)))


def _diagnostic(finding: Finding) -> lsp.Diagnostic:
    main = finding.main
    assert main is not None
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(Path(place.file).absolute().as_uri(), _range(place.line, place.column, place.text)), place.role
        )
        for place in finding.places[1:]
        if Path(place.file).is_absolute()
    ]
    return lsp.Diagnostic(
        range=_range(main.line, main.column, main.text), message=finding.message, severity=_LEVELS[finding.severity],
        code=finding.code, source="tenure", related_information=related,
    )  # fmt: skip


def _action(finding: Finding, uri: str) -> lsp.CodeAction:
    fix: Any = finding.fix
    edits = [
        lsp.TextEdit(
            lsp.Range(
                lsp.Position(edit.start[0] - 1, edit.start[1] - 1), lsp.Position(edit.end[0] - 1, edit.end[1] - 1)
            ),
            edit.text,
        )
        for edit in fix.edits
    ]
    return lsp.CodeAction(
        title=f"{finding.code}: {fix.message}", kind=lsp.CodeActionKind.QuickFix, is_preferred=fix.safe,
        edit=lsp.WorkspaceEdit(changes={uri: edits}), diagnostics=[_diagnostic(finding)],
    )  # fmt: skip
