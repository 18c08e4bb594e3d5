"""Where a site's things are: its samples, its policy, what it keeps. A small file beside its kit says it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from baton.deploy.site import Site

VARIABLE = "BATON_SITE"  # of the environment: where that file is


class Place(NamedTuple):
    """The file's fields."""

    name: str
    data: str  # a path
    label: str  # of the column, "": as the federation calls it
    policy: str  # a path
    kept: str  # a folder
    log: str  # a path: what went wrong here, in words that do not leave
    columns: dict[str, Any] | None  # what the federation's rows look like

    @classmethod
    def read(cls, path: Path) -> "Place":
        """What write wrote."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """For the processes that are started next."""
        path.write_text(json.dumps(self._asdict(), indent=1) + "\n")

    def site(self) -> "Site":
        """With its samples, read now."""
        from baton.deploy import policy
        from baton.deploy.rows import samples
        from baton.deploy.site import Site

        kept = Path(self.kept)
        kept.mkdir(parents=True, exist_ok=True)
        return Site(samples(Path(self.data), self.columns, self.label), policy.read(Path(self.policy)), kept)
