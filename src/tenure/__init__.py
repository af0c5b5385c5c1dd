"""How long every tensor lives, why, and how to end it: for PyTorch, TensorFlow and JAX."""

from tenure.analysis.holders import holders as holders
from tenure.errors import CapExceeded as CapExceeded
from tenure.errors import ScopeError as ScopeError
from tenure.errors import TensorReleased as TensorReleased
from tenure.errors import TenureError as TenureError
from tenure.errors import Unsupported as Unsupported
from tenure.lifetime.dispose import dispose as dispose
from tenure.lifetime.dispose import remains as remains
from tenure.lifetime.look import info as info
from tenure.lifetime.look import memory as memory
from tenure.lifetime.own import Owned as Owned
from tenure.lifetime.own import own as own
from tenure.lifetime.scope import adopt as adopt
from tenure.lifetime.scope import carry as carry
from tenure.lifetime.scope import keep as keep
from tenure.lifetime.scope import scope as scope
from tenure.model import Holder as Holder
from tenure.model import Memory as Memory
from tenure.model import Remains as Remains
from tenure.model import Remnant as Remnant
from tenure.model import Site as Site
from tenure.model import TensorInfo as TensorInfo
from tenure.model import Usage as Usage

__version__ = "0.1.0"
