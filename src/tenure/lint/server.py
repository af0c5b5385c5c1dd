"""The language server: findings as diagnostics, fixes as quick fixes, the page of a rule on hover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

import tenure
from tenure import untrusted
from tenure.faults import FAULTS
from tenure.findings import Edit, Finding, Place
from tenure.lint import settings as configured
from tenure.lint import stored_text
from tenure.lint.runner import check_source

_LEVELS = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "advice": lsp.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class _Document:
    """A checked document: its findings, and its lines, in which columns are counted."""

    uri: str
    file: str
    lines: Sequence[str]
    findings: Sequence[Finding]
    codec: PositionCodec

    def position(self, line: int, column: int, file: str | None = None) -> lsp.Position:
        """Convert a place (from 1, in characters) to the client's units, usually UTF-16 code units."""
        lines = self.lines if file in (None, self.file) else untrusted.lines(str(file))
        text = lines[line - 1].rstrip("\n") if 0 < line <= len(lines) else ""
        return lsp.Position(max(0, line - 1), self.codec.client_num_units(text[: max(0, column - 1)]))

    def range(self, place: Place) -> lsp.Range:
        """Return the range from a place to the end of its line, without trailing space."""
        begin = place.column or 1
        length = max(1, len(place.text))
        return lsp.Range(
            self.position(place.line, begin, place.file), self.position(place.line, begin + length, place.file)
        )

    def edited(self, edit: Edit) -> lsp.TextEdit:
        """Convert an edit to the client's form."""
        return lsp.TextEdit(lsp.Range(self.position(*edit.start), self.position(*edit.end)), edit.text)


def make() -> LanguageServer:
    """Return a server that is ready to be started."""
    # Full texts: for changed lines, pygls counts a form feed as the end of a line, but editors do not.
    whole = lsp.TextDocumentSyncKind.Full
    server = LanguageServer("tenure", tenure.__version__, text_document_sync_kind=whole)
    known: dict[str, _Document] = {}

    def look(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        file = uris.to_fs_path(uri) or uri
        settings = configured.made(configured.load(str(Path(file).parent)))
        lines = stored_text.plain(document.source).split("\n")
        findings = check_source(document.source, file, settings)
        known[uri] = _Document(uri, file, lines, findings, server.workspace.position_codec)
        diagnostics = [_diagnostic(known[uri], finding) for finding in findings]
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
        document = known.get(params.text_document.uri)
        if document is None:
            return []
        first, last = params.range.start.line + 1, params.range.end.line + 1
        return [
            _action(document, finding) for finding in document.findings
            if finding.main and first <= finding.main.line <= last and finding.fix and finding.fix.edits
        ]  # fmt: skip

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)  # type: ignore[untyped-decorator]
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = known.get(params.text_document.uri)
        for finding in document.findings if document else ():
            if finding.main and finding.main.line == params.position.line + 1:
                fault = FAULTS[finding.code]
                text = f"**{fault.code} {fault.name}**\n\n{fault.page.strip()}"
                return lsp.Hover(contents=lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text))
        return None

    return server


def _diagnostic(document: _Document, finding: Finding) -> lsp.Diagnostic:
    main = finding.main
    assert main is not None
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(Path(place.file).absolute().as_uri(), document.range(place)), place.shown
        )
        for place in finding.places[1:]
        if Path(place.file).is_absolute()
    ]
    return lsp.Diagnostic(
        range=document.range(main), message=finding.headline, severity=_LEVELS[finding.severity],
        code=finding.code, source="tenure", related_information=related,
    )  # fmt: skip


def _action(document: _Document, finding: Finding) -> lsp.CodeAction:
    fix: Any = finding.fix
    edits = [document.edited(edit) for edit in fix.edits]
    return lsp.CodeAction(
        title=f"{finding.code}: {fix.message}", kind=lsp.CodeActionKind.QuickFix, is_preferred=fix.safe,
        edit=lsp.WorkspaceEdit(changes={document.uri: edits}), diagnostics=[_diagnostic(document, finding)],
    )  # fmt: skip
