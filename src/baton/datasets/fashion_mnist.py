"""Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 1 x 28 x 28."""

from baton.datasets import idx, images
from baton.datasets.base import Dataset, Source
from baton.datasets.find import find


def load(clients: int) -> Dataset:
    """From the official IDX files; no augmentation."""
    found = find("fashion_mnist")
    return images.dataset(found, found.files, idx.decode, (0.2860,), (0.3530,))


FASHION_MNIST = Source(load, model="logistic", clients=500)
