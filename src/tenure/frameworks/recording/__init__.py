"""How each framework is watched while a trace is made: one recorder a framework, made by its `source()`."""
