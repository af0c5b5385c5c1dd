"""PyTorch. Imported only once the user has imported torch."""

from tenure.frameworks.torch.adapter import ADAPTER as ADAPTER
