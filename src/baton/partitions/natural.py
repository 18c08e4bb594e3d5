"""The data set's own clients: for data that comes with its owners, such as the quadratics."""

from baton.errors import BadInput
from baton.partitions.draws import Ints


def natural(labels: Ints, clients: int, owner: Ints | None = None) -> Ints:
    """As the data set gives it: the clients that its samples come from."""
    if owner is None:
        raise BadInput(
            "partition: 'natural' needs data that comes with its clients; iid, dirichlet and exdir split any"
        )
    return owner
