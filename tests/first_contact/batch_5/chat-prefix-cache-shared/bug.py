import os

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel


class QuestionScorer:
    """Scores continuations of one fixed instruction; its keys and values are computed once."""

    def __init__(self, model, instruction):
        self.model = model
        self.prefix_cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(instruction[None], past_key_values=self.prefix_cache)

    @torch.no_grad()
    def __call__(self, question):
        output = self.model(question[None], past_key_values=self.prefix_cache, use_cache=True)
        log_probs = torch.log_softmax(output.logits[0, :-1], dim=-1)
        return log_probs.gather(1, question[1:, None]).mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(
        vocab_size=200, n_positions=2048, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1
    )
    model = GPT2LMHeadModel(config).eval()
    scorer = QuestionScorer(model, torch.randint(2, 200, (48,)))
    scores = [scorer(torch.randint(2, 200, (16,))) for _ in range(int(os.environ.get("STEPS", "40")))]
    print("best question", max(range(len(scores)), key=scores.__getitem__), "score", max(scores))


if __name__ == "__main__":
    main()
