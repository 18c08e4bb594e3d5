"""What a run may not ask of real sites: told in one line before anybody is called."""

from baton import algorithms, datasets, metrics, schedules
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.setting import Setting
from baton.sites.remote import NO_POOL

FILES = ("csv", "npz", "npy", "images", "data")  # data sets that are files or arrays of one machine


def in_files(setting: Setting) -> bool:
    """Whether a run's data set is files that its setting names: sites open their own alone."""
    return setting.dataset.partition(":")[0] in FILES


def fits(setting: Setting) -> None:
    """Refuse what sites do not do, or could do only by telling more than a model and sums."""
    algorithm = algorithms.build(setting.algorithm)
    called = algorithms.called(setting.algorithm)
    if algorithm.pools:
        raise BadInput(NO_POOL)
    if algorithm.personal is not None or not algorithm.sends:
        raise BadInput(f"algorithm: {called} sends no model anywhere; over sites another algorithm is right")
    if schedules.build(setting.schedule).declared.held:
        raise BadInput(
            f"schedule: {setting.schedule} asks what clients hold, and sites do not tell; shuffled or fixed is right"
        )
    if setting.validation:
        raise BadInput(f"validation: {setting.validation:g}; sites hold no training samples back: 0 is right")
    if metrics.PER_CLASS in metrics.listed(setting.metrics):
        raise BadInput(f"metrics: {setting.metrics}; sites do not tell classes apart: metrics but per_class are right")
    if in_files(setting):
        raise BadInput(
            f"dataset: {setting.dataset.partition(',')[0]} is files of this machine; [data] says what sites' rows are"
        )


def alike(data: Dataset) -> None:
    """Refuse samples that sites' files cannot have."""
    if datasets.tells_numbers(data):
        raise BadInput("dataset: its labels are numbers; over sites classes are right")
    if data.weight is not None:
        raise BadInput("dataset: its samples have weights; over sites samples without are right")
