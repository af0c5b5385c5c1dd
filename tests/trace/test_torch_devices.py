"""Devices that tenure has no recorder for: a trace says so, and the recorder in Python knows their tensors."""

import os
import subprocess
import sys

import pytest

import tenure

torch = pytest.importorskip("torch")

# A device of its own, as makers of accelerators add one to torch; its memory is the host's.
DEVICE = r"""
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>
void give_back(void *where) { c10::free_cpu(where); }
struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        void *where = c10::alloc_cpu(bytes);
        return {where, where, &give_back, c10::Device(c10::kPrivateUse1, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void *to, const void *from, size_t count) const override { default_copy_data(to, from, count); }
} memory;
at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    return at::detail::empty_generic(sizes, &memory, keys, type.value_or(at::kFloat), format);
}
at::Tensor &fill(at::Tensor &tensor, const at::Scalar &value) {
    for (int64_t i = 0; i < tensor.numel(); i++) static_cast<float *>(tensor.data_ptr())[i] = value.toFloat();
    return tensor;
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("empty.memory_format", &empty), m.impl("fill_.Scalar", &fill); }
"""
PROGRAM = """
import sys, types
import torch
torch.ops.load_library(sys.argv[1])
module = types.ModuleType("torch.privateuseone")
module.is_available = lambda: True
module.current_device = lambda: 0
torch._register_device_module("privateuseone", module)
x = torch.empty(1000, device="privateuseone")
print(x.fill_(1).device)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    (folder / "device.cpp").write_text(DEVICE)
    (folder / "program.py").write_text(PROGRAM)
    root, library = torch.__path__[0], folder / "device.so"
    paths = [f"-I{root}/include", f"-L{root}/lib"]
    command = ["c++", "-shared", "-fPIC", "-std=c++20", *paths, str(folder / "device.cpp"), "-lc10", "-ltorch_cpu"]
    subprocess.run([*command, "-o", str(library)], check=True)
    return [str(folder / "program.py"), str(library)]


@pytest.mark.parametrize("native", ["1", "0"])
def test_memory_that_is_not_recorded_is_told_of(native, program, tmp_path):
    environment = {**os.environ, "TENURE_NATIVE": native}
    command = [sys.executable, "-m", "tenure", "run", "-o", str(tmp_path / "t"), *program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "privateuseone:0\n"), done.stderr
    missing = "memory on privateuseone devices is not recorded: tenure has no native recorder for them" in " ".join(
        done.stderr.replace("tenure:   ", "").split()
    )
    assert missing == (native == "1"), done.stderr
    rows = tenure.load(tmp_path / "t").sql("select device, bytes from buffers").to_pylist()
    assert rows == ([] if missing else [{"device": "privateuseone:0", "bytes": 4000}])
