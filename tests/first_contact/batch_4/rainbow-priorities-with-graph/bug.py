"""Rainbow-style agent on a chain world: n-step targets and prioritised replay with a sum tree."""
import os
import random

import numpy as np
import torch
from torch import nn


class SegmentTree:
    def __init__(self, size):
        self.size = size
        self.index = 0
        self.full = False
        self.sum_tree = [torch.zeros(())] * (2 * size - 1)
        self.data = [None] * size

    def _propagate(self, index):
        parent = (index - 1) // 2
        self.sum_tree[parent] = self.sum_tree[2 * parent + 1] + self.sum_tree[2 * parent + 2]
        if parent != 0:
            self._propagate(parent)

    def update(self, index, value):
        self.sum_tree[index] = value
        self._propagate(index)

    def append(self, data, value):
        self.data[self.index] = data
        self.update(self.index + self.size - 1, value)
        self.index = (self.index + 1) % self.size
        self.full = self.full or self.index == 0

    def find(self, value, index=0):
        while 2 * index + 1 < len(self.sum_tree):
            left = 2 * index + 1
            if value <= self.sum_tree[left].item():
                index = left
            else:
                value -= self.sum_tree[left].item()
                index = left + 1
        return index, self.sum_tree[index].item()


class ReplayMemory:
    def __init__(self, capacity=4096, omega=0.5):
        self.tree = SegmentTree(capacity)
        self.omega = omega

    def append(self, *transition):
        self.tree.append(transition, torch.ones(()))

    def sample(self, n):
        total = self.tree.sum_tree[0].item()
        picks = [self.tree.find(random.uniform(i, i + 1) * total / n) for i in range(n)]
        batch = [self.tree.data[index - self.tree.size + 1] for index, _ in picks]
        state, action, reward, following = map(np.array, zip(*batch))
        weights = np.array([total / max(p, 1e-6) for _, p in picks]) ** 0.4
        tensors = [torch.as_tensor(a, dtype=torch.float32) for a in (state, reward, following, weights / weights.max())]
        return [index for index, _ in picks], torch.as_tensor(action), *tensors

    def update_priorities(self, idxs, priorities):
        for idx, priority in zip(idxs, priorities.pow(self.omega)):
            self.tree.update(idx, priority)


class Agent:
    def __init__(self, states=16, actions=2):
        self.online = nn.Sequential(nn.Linear(states, 256), nn.ReLU(), nn.Linear(256, actions))
        self.optimiser = torch.optim.Adam(self.online.parameters(), lr=1e-3)

    def act(self, state):
        with torch.no_grad():
            return self.online(torch.as_tensor(state, dtype=torch.float32)).argmax().item()

    def learn(self, mem, batch_size=32):
        idxs, actions, states, returns, following, weights = mem.sample(batch_size)
        with torch.no_grad():
            target = returns + 0.95 * self.online(following).max(1).values
        chosen = self.online(states).gather(1, actions[:, None]).squeeze(1)
        loss = (target - chosen).abs() + 1e-3
        self.online.zero_grad()
        (weights * loss).mean().backward()
        self.optimiser.step()
        mem.update_priorities(idxs, loss)
        return loss.mean().item()


def main():
    random.seed(1)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    eye, position = np.eye(16, dtype=np.float32), 0
    agent, mem = Agent(), ReplayMemory()
    for step in range(600 + int(os.environ.get("STEPS", "40"))):
        action = random.randrange(2) if random.random() < 0.3 else agent.act(eye[position])
        following = min(max(position + (1 if action else -1), 0), 15)
        mem.append(eye[position], action, float(following == 15), eye[following])
        position = 0 if following == 15 else following
        if step >= 600:
            td = agent.learn(mem)
    print(f"mean td error {td:.3f}")


if __name__ == "__main__":
    main()
