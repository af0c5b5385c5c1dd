"""Random programs that hold tensors in all the ways of Python, for the advice to be written into."""

import random

HEAD = """import torch

N = 400_000
KEPT = []


def helper(x):
    return x * 0.5


def same(x):
    return x


def stored(x):
    KEPT.append(x)
    return x.sum().item()


def main():
    KEPT.clear()
    total = 0.0
"""


class Writer:
    """Writes the body of a function, knowing which names are bound on every path."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []
        self.count = 0

    def write(self):
        names = []
        for _ in range(self.rng.randrange(6, 16)):
            self.statement(names, 1, 0)
        used = self.rng.sample(names, min(len(names), self.rng.randrange(3)))
        self.line(1, f"return total + sum(float(x.sum()) for x in [{', '.join(used)}])")
        return HEAD + "\n".join(self.lines) + "\n"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def name(self, names):
        if names and self.rng.random() < 0.2:
            return self.rng.choice(names)
        self.count += 1
        return f"v{self.count}"

    def statement(self, names, depth, loops):
        rng = self.rng
        if not names or rng.random() < 0.25:
            name = self.name(names)
            self.line(depth, f"{name} = torch.full((N,), {rng.randrange(1, 9)}.0)")
            names += [name] if name not in names else []
            return
        a, b = rng.choice(names), rng.choice(names)
        kind = rng.randrange(15)
        if kind < 5:
            name = self.name(names)
            made = rng.choice(
                [
                    f"{a}.mean() + {b} * 2",
                    f"helper({a})",
                    f"{a} - 1",
                    f"torch.cat([{a}, {a}])[: N]",
                    f"({a} > 1).float()",
                ]
            )
            self.line(depth, f"{name} = {made}")
            names += [name] if name not in names else []
        elif kind == 5:
            name = self.name([])
            self.line(
                depth, f"{name} = {rng.choice([a, f'{a}[: N // 2]', f'{a}.view(-1)', f'same({a})', f'{a}.detach()'])}"
            )
            names.append(name)
        elif kind < 9:
            self.line(depth, f"total += {a}.sum().item()")
        elif kind == 9:
            self.line(depth, f"total += {rng.choice([f'stored({a})', f'len([{a}, {b}])', f'float({a}[0])'])}")
        elif kind == 10:
            self.line(depth, f"{rng.choice(['KEPT.append', 'print if total is None else str'])}({a})")
        elif kind == 11:
            self.count += 1
            self.line(depth, f"f{self.count} = lambda: {a}.sum().item()")
            self.line(depth, f"total += f{self.count}()")
        elif kind == 12 and depth < 3:
            self.line(depth, f"if total {rng.choice('<>')} {rng.randrange(10**6)}:")
            inner = list(names)
            for _ in range(rng.randrange(1, 4)):
                self.statement(inner, depth + 1, loops)
        elif kind == 13 and loops < 1:
            self.line(depth, f"for step in range({rng.randrange(2, 4)}):")
            inner = list(names)
            for _ in range(rng.randrange(2, 6)):
                self.statement(inner, depth + 1, loops + 1)
        elif kind == 14 and len(names) > 1 and depth == 1:
            self.line(depth, f"del {a}")
            names.remove(a)
        else:
            self.line(depth, f"total += float({a}.max())")


def program(seed):
    """The source of one."""
    return Writer(seed).write()
