"""No framework at all."""

import json
import os

print(json.dumps({"sum": sum(range(10)), "files": sorted(os.listdir("."))}))
