"""Small real trainings with Hugging Face's Trainer and with Lightning, each without and with the callback.

Prints one JSON object: what came of them.
"""

import json
import sys
from pathlib import Path

import torch

FOLDER = Path(sys.argv[1])
KEPT = []


def digest(module):
    return [tensor.detach().numpy().tobytes().hex()[:4096] for tensor in module.state_dict().values()]


def hugging_face(callback, logs):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

    set_seed(7)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    )
    tokens = torch.randint(0, 64, (24, 12), generator=torch.Generator().manual_seed(3))
    data = [{"input_ids": row, "labels": row} for row in tokens]

    class Leaking(Trainer):
        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            if callback is not None:
                KEPT.append(loss)  # the mistake that the callback is to find
            return loss

    arguments = TrainingArguments(
        output_dir=str(FOLDER / "out"),
        num_train_epochs=2,
        per_device_train_batch_size=2,
        logging_steps=4,
        save_strategy="no",
        report_to=["tensorboard"] if callback else [],
        use_cpu=True,
        seed=7,
        disable_tqdm=True,
        dataloader_num_workers=0,
    )
    trainer = Leaking(model=model, args=arguments, train_dataset=data)
    if callback is not None:
        callback.attach(trainer)
    trainer.train()
    logs.extend(trainer.state.log_history)
    return digest(model)


def lightning(callback, logs):
    import lightning as L
    from lightning.pytorch.loggers import CSVLogger

    L.seed_everything(5, verbose=False)

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

        def training_step(self, batch, at):
            x, y = batch
            return torch.nn.functional.mse_loss(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    made = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(32, 8, generator=made), torch.randn(32, 1, generator=made))
    net = Net()
    logger = CSVLogger(FOLDER, name="csv", version="with" if callback else "without")
    trainer = L.Trainer(
        max_epochs=2,
        logger=logger,
        callbacks=[callback] if callback else [],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        accelerator="cpu",
        log_every_n_steps=2,
    )
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
    if callback is not None:
        logs.append(Path(logger.log_dir, "metrics.csv").read_text())
    return digest(net)


def tried(train, callback):
    logs = []
    without, with_it = train(None, []), train(callback, logs)
    return {
        "same": without == with_it,
        "logs": logs,
        "codes": [finding.code for finding in callback.findings],
        "steps": callback.trace.steps().num_rows,
        "path": str(callback.trace.path),
    }


def main():
    from tenure.integrations.lightning import TenureCallback as ForLightning
    from tenure.integrations.transformers import TenureCallback as ForTransformers

    told = {
        "transformers": tried(hugging_face, ForTransformers(FOLDER / "hf")),
        "lightning": tried(lightning, ForLightning(FOLDER / "lightning", quiet=True)),
    }
    print(json.dumps(told))


main()
