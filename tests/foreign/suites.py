"""Which projects' suites are run, and what of them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """A source package of the index. `tests` are paths in it, `needs` what they import beside what tenure's need."""

    name: str
    version: str
    sha256: str
    tests: tuple[str, ...]
    args: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()  # that the tests write to, and that were left out of the package
    path: tuple[str, ...] = ()  # folders of the source that are imported from
    known: dict[str, dict[str, str]] = field(default_factory=dict)  # mode → end of a test's name → why it differs
    run: str = ""  # of several runs of one package, which

    @property
    def label(self) -> str:
        return f"{self.name} ({self.run})" if self.run else self.name


# In JAX each new shape is compiled, which takes a second.
KERAS = {
    "torch": ("random", "losses", "layers/regularization"),
    "tensorflow": ("losses", "layers/regularization"),
    "jax": ("random",),
}
SUITES = (
    Suite(
        "einops",
        "0.8.2",
        "609da665570e5e265e27283aab09e7f279ade90c4f01bcfca111f3d3e13f2827",
        ("einops/tests",),
        env={"EINOPS_TEST_BACKENDS": "numpy,torch,jax,tensorflow"},
        path=(".",),
        needs=("parameterized==0.9.0",),
    ),
    Suite(
        "opt_einsum",
        "3.4.0",
        "96ca72f1b886d148241348783498194c577fa30a8faac108586b14f1ba4473ac",
        ("opt_einsum/tests",),
        path=(".",),
    ),
    Suite(
        "linear_operator",
        "0.6.1",
        "3fba49a8080d16f822a5d870f462279cd6afbcf4ed670f4511b38fad96f61831",
        (
            "test/functions",
            "test/utils",
        ),
        path=(".",),
        needs=("jaxtyping==0.3.11",),
    ),
    Suite(
        "chex",
        "0.1.92",
        "fa8beff1124204ae466a6eb13cb91ae3c24322a1c7216946aee93d031e2f1996",
        ("chex/_src",),
        ("--override-ini=python_files=*_test.py",),
        path=(".",),
        needs=("cloudpickle==3.1.2", "toolz==1.2.0"),
    ),
    Suite(
        "safetensors",
        "0.8.0",
        "fabaf3e0f18a6618d9b36560682562157f77c2b71fcffc7b432be2baed9d753d",
        ("bindings/python/tests",),
        folders=("tests/data",),
        args=("--ignore-glob=*flax*", "--ignore-glob=*mlx*", "--ignore-glob=*paddle*"),
    ),
    Suite(
        "autoray",
        "0.11.0",
        "ef9c23d8307f2e5030d10dd222d304401450157172a6fcc6f7456b6e82681bf4",
        ("tests",),
        path=(".",),
    ),
    Suite(
        "zuko",
        "1.6.0",
        "edc516e51bbbf9d64e7663b617cf9293c6e1e6bbfcb39559bc383383e6663b04",
        ("tests",),
        path=(".",),
        known={
            "--tenure": {
                "::test_flows[CNF]": "a true finding, TN305: its autograd Function keeps its result on `ctx.steps`, a cycle "
                "that waits for the garbage collector"
            }
        },
    ),
    Suite(
        "nflows",
        "0.14",
        "6299844a62f9999fcdf2d95cb2d01c091a50136bd17826e303aba646b2d11b55",
        ("tests",),
        path=(".",),
        needs=("UMNN==1.71", "matplotlib==3.11.2", "torchtestcase==2018.2"),
    ),
    *(
        Suite(
            "keras",
            "3.15.1",
            "92ae7c1dd7f61041953dc2d42253181ee099086f0b58ae36fcf98147a6f08a29",
            tuple(f"keras/src/{part}" for part in parts),
            ("--override-ini=python_files=*_test.py",),
            path=(".",),
            env={"KERAS_BACKEND": backend},
            run=backend,
        )
        for backend, parts in KERAS.items()
    ),
)
