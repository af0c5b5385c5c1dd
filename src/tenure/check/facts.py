"""What can be seen in a file: one class per kind of fact, with what a rule needs to report it. `fact.py` has their base."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tenure.check.abstract_values import Cause, Framework, Spot
from tenure.check.fact import Fact

CycleKind: TypeAlias = Literal["bound method", "closure", "hook", "object"]


@dataclass(slots=True, eq=False, kw_only=True)
class Retained(Fact):
    """A value is kept at `holder` that was created at `birth`."""

    holder: Spot | None
    birth: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class Used(Fact):
    """A value is used at `use` that was created at `birth`."""

    use: Spot | None
    birth: Spot | None


class AddressAsKey(Retained):
    """An id of a tensor is used after the tensor was freed."""


@dataclass(slots=True, eq=False, kw_only=True)
class AliasChanges(Fact):
    """What was stored changes together with its source."""

    holder: Spot | None = None
    birth: Spot | None
    use: Spot | None = None
    how: Literal["buffer", "model", "shared memory", "state_dict"]
    call: ast.AST | None = None  # of state_dict()


@dataclass(slots=True, eq=False, kw_only=True)
class ArrayReadTwice(Fact):
    """An element of a tensor array is read that an earlier read has cleared."""

    use: Spot | None
    end: Spot | None
    birth: Spot | None


class ArraysCollected(Retained):
    """Every iteration stores an array, and nothing reads it."""


@dataclass(slots=True, eq=False, kw_only=True)
class CacheKeeps(Retained):
    """A cache without a limit keeps tensors or models."""

    use: Spot | None = None
    how: Literal["dict", "lru_cache"]


@dataclass(slots=True, eq=False, kw_only=True)
class CachedTracer(Fact):
    """A cached function is called in a trace, so its cache keeps a symbolic value."""

    birth: Spot | None
    escape: Spot | None
    use: Spot | None
    how: str


@dataclass(slots=True, eq=False, kw_only=True)
class ClosedSession(Fact):
    """A session is used after it was closed."""

    use: Spot | None
    end: Spot | None
    birth: Spot | None


class ClosureKeeps(Retained):
    """Every iteration stores a function that closes over a tensor."""


class CompiledRetained(Used):
    """A compiled function cannot retain its graph."""


class EagerInGraph(Used):
    """An operation of a graph gets an eager tensor."""


@dataclass(slots=True, eq=False, kw_only=True)
class EagerInSession(Used):
    """A session is asked to run or is fed an eager tensor, or a placeholder is made where operations run immediately."""

    holder: Spot | None = None
    placeholder: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Escape(Fact):
    """A symbolic value is stored in something that outlives its trace."""

    escape: Spot | None
    birth: Spot | None
    end: Spot | None
    use: Spot | None = None
    trace: str  # the kind of the trace
    how: str
    kept_in: str


class ExceptionKept(Retained):
    """An exception is stored, and with it the frames of its traceback."""


@dataclass(slots=True, eq=False, kw_only=True)
class ExpandedWritten(Fact):
    """An expanded tensor is changed in place."""

    use: Spot | None
    birth: Spot | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class FirstVersion(Fact):
    """A name that only TensorFlow 1 has."""

    use: Spot | None
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class FreedGraph(Fact):
    """A backward pass needs a graph that an earlier one freed."""

    use: Spot | None
    end: Spot | None
    birth: Spot | None
    holder: Spot | None = None
    carried: bool  # as a state from an earlier iteration


@dataclass(slots=True, eq=False, kw_only=True)
class FunctionMadeInLoop(Fact):
    """Every iteration creates a compiled function."""

    use: Spot | None
    holder: Spot | None
    how: str


@dataclass(slots=True, eq=False, kw_only=True)
class FunctionOfDeadObject(Fact):
    """A tf.function method is called after its object was collected."""

    birth: Spot | None
    escape: Spot | None
    use: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class GradModeLost(Used):
    """A thread does not inherit the grad mode of the thread that started it."""

    mode: str


@dataclass(slots=True, eq=False, kw_only=True)
class GradientNeverReset(Fact):
    """A training loop adds gradients up and never resets them."""

    use: Spot | None
    holder: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class GradientOfNonLeaf(Used):
    """The gradient of a tensor is read that backward() does not fill."""

    end: Spot | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class GradientReset(Fact):
    """A gradient is used after it was set to None."""

    use: Spot | None
    end: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class GradientResetBeforeStep(Fact):
    """Gradients are reset between backward() and the step that needs them."""

    use: Spot | None
    end: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class GradientsKept(Retained):
    """Every iteration stores a gradient."""

    in_set: bool


@dataclass(slots=True, eq=False, kw_only=True)
class GraphCopied(Used):
    """A tensor with a graph is copied by `deepcopy`, or sent to another process."""

    escape: Spot | None
    how: Literal["deepcopy", "process"]


@dataclass(slots=True, eq=False, kw_only=True)
class GraphCreated(Fact):
    """backward(create_graph=True) in a loop that never resets gradients."""

    holder: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class GraphGrows(Fact):
    """Every iteration adds operations to the graph that a session runs; or every call of a function that counts them."""

    birth: Spot | None
    calls: bool


@dataclass(slots=True, eq=False, kw_only=True)
class GraphKept(Retained):
    """Every iteration stores a tensor together with its autograd graph."""

    scalar: bool
    state: Literal["freed", "kept"]
    nodes: list[ast.expr] = field(default_factory=list)  # the expressions that carry a graph


class GraphUnused(Used):
    """A forward pass builds a graph that no backward pass uses."""


class GroupsKept(Retained):
    """An optimizer gets new parameters, and keeps those that they replace."""


class HookEachStep(Retained):
    """Every iteration registers a hook and never removes it."""


@dataclass(slots=True, eq=False, kw_only=True)
class HookKeeps(Retained):
    """A hook stores activations with their graph."""

    drained: bool


class InferenceChanged(Used):
    """An inference tensor is changed outside inference mode."""


class InferenceInAutograd(Used):
    """An inference tensor is used in an operation that autograd records."""


@dataclass(slots=True, eq=False, kw_only=True)
class KerasSymbolic(Used):
    """A symbolic Keras tensor is used outside its model."""

    escape: Spot | None = None
    how: str


class LeafChanged(Used):
    """A leaf that requires grad is changed in place."""


@dataclass(slots=True, eq=False, kw_only=True)
class NameMissing(Fact):
    """A variable is reused that does not exist."""

    use: Spot | None
    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class NameTaken(Used):
    """A variable is created that exists already."""

    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class NoDefaultSession(Used):
    """eval() where no session is the default."""

    session: str | None


@dataclass(slots=True, eq=False, kw_only=True)
class NotInitialised(Used):
    """A variable or iterator is run before its initializer."""

    what: Literal["iterator", "variable"]


class OptimizerKept(Retained):
    """Every iteration stores an optimizer."""


@dataclass(slots=True, eq=False, kw_only=True)
class OtherGraph(Used):
    """A tensor is used in a graph that it does not belong to."""

    end: Spot | None = None
    reset: bool  # its own graph was reset


class OutputOnContext(Retained):
    """The output of an autograd function is an attribute of its own ctx."""


@dataclass(slots=True, eq=False, kw_only=True)
class OutsideTape(Used):
    """A tape is asked about an operation that ran after its block."""

    end: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class ParametersReplaced(Fact):
    """An optimizer updates weights that its model no longer uses."""

    use: Spot | None
    escape: Spot | None
    birth: Spot | None
    end: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class ReferenceCycle(Retained):
    """An object references itself, and the collector must free it."""

    how: CycleKind


@dataclass(slots=True, eq=False, kw_only=True)
class RetainedGrowing(Retained):
    """retain_graph=True keeps the graphs of all earlier iterations."""

    state: bool  # a state is carried, not a sum


@dataclass(slots=True, eq=False, kw_only=True)
class Retraced(Used):
    """A call is traced again in every iteration."""

    why: str
    how: str


@dataclass(slots=True, eq=False, kw_only=True)
class RetryInHandler(Fact):
    """An exception handler tries again while the exception keeps tensors of the first attempt."""

    use: Spot | None
    holder: Spot | None
    birth: Spot | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class SavedChanged(Used):
    """A tensor that the graph saved is changed in place before backward()."""

    end: Spot | None
    op: str


class StateCarried(Retained):
    """A state carries its graph from iteration to iteration."""


@dataclass(slots=True, eq=False, kw_only=True)
class SenderEnded(Used):
    """A tensor is received from a process that was joined before."""

    end: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class StillHeld(Fact):
    """A name is deleted while another one keeps the same bytes."""

    end: Spot | None
    birth: Spot | None
    holder: Spot | None = None
    name: str
    other: str


@dataclass(slots=True, eq=False, kw_only=True)
class SymbolicRead(Used):
    """A symbolic value is read as a number."""

    how: str
    trace: str
    framework: Framework


class TapeKept(Retained):
    """Every iteration stores a gradient tape."""


@dataclass(slots=True, eq=False, kw_only=True)
class TapeUsedAgain(Fact):
    """A tape that is not persistent is used twice."""

    use: Spot | None
    end: Spot | None
    birth: Spot | None


class TensorHookCycle(Retained):
    """A hook of a tensor references the tensor."""


@dataclass(slots=True, eq=False, kw_only=True)
class UnsynchronisedWriters(Used):
    """Threads change one tensor without a lock."""

    holder: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class UsedAfterEnd(Fact):
    """A tensor is used after its bytes were freed."""

    use: Spot | None
    end: Spot | None
    birth: Spot | None
    cause: Cause


@dataclass(slots=True, eq=False, kw_only=True)
class VariableInTrace(Fact):
    """A traced function creates a variable."""

    birth: Spot | None


@dataclass(slots=True, eq=False, kw_only=True)
class ViewKept(Retained):
    """A view of a small part is stored and keeps the whole buffer."""

    escape: Spot | None
    fw: Framework | None


class ViewSaved(Used):
    """A view is saved to a file, which then contains the whole buffer."""


class WeaklyHeld(Retained):
    """Only a weak reference refers to a tensor, which is freed at once."""


class WorkerTensorKept(Retained):
    """Tensors of worker processes are stored."""


class WriteDiscarded(Used):
    """The result of a write to a tensor array is dropped."""
