import os

import torch
from torch import nn


class LindbladSolver:
    """Propagates an open quantum system and caches what depends on the Hamiltonian alone."""

    def __init__(self, jumps, dt=0.02):
        self.jumps = jumps
        self.dt = dt
        self.identity = torch.eye(jumps.shape[-1], dtype=jumps.dtype)

    def liouvillian(self, H):
        eye = self.identity
        out = -1j * (torch.kron(H, eye) - torch.kron(eye, H.mT.contiguous()))
        for L in self.jumps:
            LdL = L.mH @ L
            out = out + torch.kron(L, L.conj()) - 0.5 * (torch.kron(LdL, eye) + torch.kron(eye, LdL.mT.contiguous()))
        return out

    def propagate(self, H, rho, n):
        U = torch.linalg.matrix_exp(self.liouvillian(H).detach() * self.dt)
        flat = rho.reshape(-1)
        for _ in range(n):
            flat = U @ flat
        return flat.reshape(rho.shape)


class PulseNet(nn.Module):
    def __init__(self, controls):
        super().__init__()
        self.controls = controls
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, len(controls)))

    def forward(self, t):
        amplitudes = self.net(t)
        return torch.einsum("k,kij->ij", amplitudes.to(self.controls.dtype), self.controls)


def hermitian(n, dim):
    a = torch.randn(n, dim, dim, dtype=torch.complex64)
    return 0.5 * (a + a.mH)


@torch.no_grad()
def scan(steps, dim=8):
    controls = hermitian(3, dim)
    solver = LindbladSolver(jumps=0.1 * torch.randn(2, dim, dim, dtype=torch.complex64))
    pulse = PulseNet(controls)
    rho = torch.zeros(dim, dim, dtype=torch.complex64)
    rho[0, 0] = 1.0
    for step in range(steps):
        rho = solver.propagate(pulse(torch.tensor([step / steps])), rho, n=5)
    return rho


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rho = scan(int(os.environ.get("STEPS", "40")))
    print("trace", rho.diagonal().sum().real.item(), "purity", (rho @ rho).diagonal().sum().real.item())
