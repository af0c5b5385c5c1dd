import os
import random
from collections import deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Transition = namedtuple("Transition", ("state", "action", "q_value", "reward", "next_state"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return Transition(*zip(*random.sample(self.memory, batch_size)))

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self, obs=4, actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, actions))

    def forward(self, x):
        return self.body(x)


def soft_update(target, online, tau=0.05):
    weights, goal = target.state_dict(), online.state_dict()
    for key in goal:
        weights[key] = goal[key] * tau + weights[key] * (1 - tau)
    target.load_state_dict(weights)


random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
online, target = QNet(), QNet()
target.load_state_dict(online.state_dict())
memory = ReplayMemory(24)
optimizer = torch.optim.AdamW(online.parameters(), lr=1e-3, amsgrad=True)
td_history = []
state = torch.randn(1, 4)
for step in range(int(os.environ.get("STEPS", "40"))):
    q = online(state)
    action = q.max(1).indices.view(1, 1)
    next_state = 0.9 * state + 0.1 * torch.randn(1, 4)
    memory.push(state, action, q.detach(), (next_state[:, 0] > 0).float(), next_state)
    state = next_state
    if len(memory) < 8:
        continue
    batch = Transition(*map(torch.cat, memory.sample(8)))
    chosen = online(batch.state).gather(1, batch.action).squeeze(1)
    with torch.no_grad():
        expected = batch.reward + 0.99 * target(batch.next_state).max(1).values
    loss = F.smooth_l1_loss(chosen, expected)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    soft_update(target, online)
    td_history.append(loss.item())
print(len(memory), "transitions", len(td_history), "updates")
