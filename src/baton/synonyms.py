"""Other names for registered things, as data: what the paper and the field call them.

Registered names and these are read without regard to case, hyphens, underscores and blanks, so `LeNet-5` is `lenet5`
and `CIFAR-10` is `cifar10` without a line here. Stored and shown is always the registered name.
"""

from collections.abc import Iterable, Mapping

SYNONYMS: dict[str, dict[str, str]] = {  # field of a setting -> {other name: registered spec}
    "algorithm": {
        "SFL": "sequential",
        "CWT": "sequential",
        "cyclic": "sequential",
        "cyclic weight transfer": "sequential",
        "PFL": "parallel",
        "FedAvg": "parallel",
        "Local SGD": "parallel",
        "SL": "ssl",
        "SFLv1": "splitfed",
        "SplitFedV1": "splitfed",
        "SFLv2": "splitfed:version=2",
        "SplitFedV2": "splitfed:version=2",
    },
    "dataset": {"FMNIST": "fashion_mnist"},
    "model": {"LeNet": "lenet5", "logistic regression": "logistic"},
    "partition": {"Dir": "dirichlet", "extended Dirichlet": "exdir"},
    "metrics": {"AUROC": "auc", "ROC-AUC": "auc", "recall": "sensitivity", "ECE": "calibration"},
}


def fold(name: str) -> str:
    """Return the name without case, hyphens, underscores and blanks."""
    return "".join(name.split()).replace("-", "").replace("_", "").lower()


def registered(field: str, name: str, known: Iterable[str]) -> str | None:
    """Return the registered spec that a name in any spelling stands for, or None."""
    return names_like(field, known).get(fold(name))


def names_like(field: str, known: Iterable[str]) -> Mapping[str, str]:
    """Return every name that may be written, in folded form, with the registered spec it stands for."""
    names = list(known)
    others = {fold(other): spec for other, spec in SYNONYMS.get(field, {}).items() if spec.partition(":")[0] in names}
    return others | {fold(name): name for name in names}


def also_called(field: str, name: str) -> list[str]:
    """Return the other names of a registered spec, as people write them."""
    return [other for other, spec in SYNONYMS.get(field, {}).items() if spec == name]
