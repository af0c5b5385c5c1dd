import os

import numpy as np
import torch
import torch.nn as nn


class fMRI_LSTM(nn.Module):
    def __init__(self, input_dim, hidden_dim, batch_size):
        super(fMRI_LSTM, self).__init__()
        self.hidden_dim = hidden_dim
        self.batch_size = batch_size
        self.lstm = nn.LSTM(input_dim, hidden_dim, num_layers=1, batch_first=True)
        self.dropout = nn.Dropout(p=0.2)
        self.linear = nn.Linear(hidden_dim, 1)
        self.hidden = self.init_hidden()

    def init_hidden(self):
        shape = (1, self.batch_size, self.hidden_dim)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x):
        lstm_out, self.hidden = self.lstm(x, self.hidden)
        out = self.dropout(lstm_out[:, -1, :])
        return torch.sigmoid(self.linear(out)).squeeze(1)


def load_scan(rng, batch_size, rois, n_windows, length=16):
    sex = rng.integers(0, 2, batch_size)
    for _ in range(n_windows):
        signal = rng.normal(size=(batch_size, length, rois)) + 0.1 * sex[:, None, None]
        yield torch.tensor(signal, dtype=torch.float32), torch.tensor(sex, dtype=torch.float32)


def run_training(n_windows, n_epochs=2, batch_size=32, rois=22):
    rng = np.random.default_rng(0)
    net = fMRI_LSTM(rois, 32, batch_size)
    criterion = nn.BCELoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    net.train()
    for epoch in range(n_epochs):
        net.hidden = net.init_hidden()
        optimizer.zero_grad()
        running_loss = 0.0
        for windows, targets in load_scan(rng, batch_size, rois, n_windows):
            outputs = net(windows)
            loss = criterion(outputs, targets) / n_windows
            loss.backward(retain_graph=True)
            running_loss += loss.item()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        print("epoch %d, loss %.4f" % (epoch + 1, running_loss))


torch.manual_seed(0)
torch.set_num_threads(1)
run_training(int(os.environ.get("STEPS", "40")))
