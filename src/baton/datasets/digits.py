"""scikit-learn's handwritten digits: 1,797 images of 8 x 8, which come inside that package."""

import torch

from baton.datasets.base import Dataset, Source, cross_entropy


def load(clients: int) -> Dataset:
    """Every fifth image is for testing (360 of 1,797); pixels scaled to [0, 1] and normalised."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = torch.from_numpy(bunch.data).float() / 16
    x = (x - 0.3053) / 0.3761  # mean and deviation of the training pixels
    y = torch.from_numpy(bunch.target).long()
    test = torch.arange(len(y)) % 5 == 0
    return Dataset(x[~test], y[~test], x[test], y[test], classes=10, loss=cross_entropy)


DIGITS = Source(load, model="logistic", clients=10)
