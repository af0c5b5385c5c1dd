import os

import torch
from torch import nn


class TinyEncoder(nn.Module):
    def __init__(self, vocab=500, dim=48, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerEncoderLayer(dim, heads, 96, batch_first=True, dropout=0.0)

    def forward(self, input_ids):
        return {"last_hidden_state": self.layer(self.embed(input_ids))}


class EmbeddingPipeline:
    def __init__(self, model, batch_size=8):
        self.model = model.eval()
        self.batch_size = batch_size

    @torch.inference_mode()
    def encode(self, corpus):
        rows = []
        for start in range(0, len(corpus), self.batch_size):
            outputs = self.model(corpus[start : start + self.batch_size])
            hidden = outputs["last_hidden_state"]
            rows.extend(self.pool(hidden))
        return rows

    def pool(self, hidden):
        return [sentence for sentence in hidden[:, 0]]


def nearest(rows, query):
    scores = [torch.dot(row, query).item() for row in rows]
    return max(range(len(rows)), key=scores.__getitem__)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    batches = int(os.environ.get("STEPS", "40"))
    pipeline = EmbeddingPipeline(TinyEncoder())
    corpus = torch.randint(0, 500, (8 * batches, 64))
    rows = pipeline.encode(corpus)
    print(len(rows), "embeddings; nearest to the first:", nearest(rows[1:], rows[0]))


if __name__ == "__main__":
    main()
