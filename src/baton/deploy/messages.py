"""What server and sites say to each other. Leaves of models have no lane axis."""

from typing import NamedTuple

from torch import Tensor

from baton.lanes import Params
from baton.sites.halves import Backward, Begin, End, Features, Forward, Up
from baton.sites.visit import Answer, Order


class Look(NamedTuple):
    """Would you take part in this run? Answered by Here."""

    setting: str  # as JSON


class Here(NamedTuple):
    """A site that would."""

    samples: int  # -1: it does not tell
    version: str  # of Baton


class Train(NamedTuple):
    """One whole leg. Answered by Trained."""

    setting: str
    leg: str  # its id: whatever else comes back is not believed
    base: str  # the last leg of this site that counted: what it keeps is what it kept then; "": as it began
    order: Order


class Trained(NamedTuple):
    """The leg, done."""

    leg: str
    answer: Answer


class Half(NamedTuple):
    """One message of a leg in split form. Answered by Halved."""

    setting: str
    leg: str
    number: int  # of the message, from 0
    message: Begin | Forward | Features | Backward | End


class Halved(NamedTuple):
    """What the site's half says."""

    leg: str
    number: int
    answer: int | Tensor | Up | Answer


class Evaluate(NamedTuple):
    """What a model costs on the site's own samples. Answered by Sums."""

    setting: str
    model: Params
    train: bool  # on those it trains on too
    round: int = 0  # rounds that were done


class Sums(NamedTuple):
    """Over the site's samples; all 0 where it has none, or does not tell."""

    test_loss: float
    test_right: float
    test_count: float
    train_loss: float
    train_right: float
    train_count: float
    metrics: Params = {}  # noqa: RUF012 each a number of the site's test rows; nan where they cannot tell


class Refused(NamedTuple):
    """The site does not do it: one of WHYS."""

    why: str


Message = Look | Here | Train | Trained | Half | Halved | Evaluate | Sums | Refused
PARTS = (Order, Answer, Begin, Forward, Up, Features, Backward, End)

WHYS = {  # all that a site ever says of what went wrong: nothing of its data is in it
    "message": "it cannot read what it was sent",
    "version": "it has another version of Baton",
    "code": "the run names code that is not Baton's own",
    "files": "the run names files, and it opens its own alone",
    "algorithm": "its policy does not accept this algorithm",
    "model": "its policy does not accept this model",
    "steps": "its policy does not accept so many local steps",
    "sizes": "the run would tell how many samples it holds, which its policy does not",
    "samples": "it holds fewer samples than its policy asks for",
    "rows": "a leg would rest on fewer different training rows than its policy asks for",
    "order": "it was ordered something else than its run says",
    "leg": "it has answered another order under this leg's name",
    "numbers": "it has told all exact numbers of this run that its policy allows",
    "books": "its privacy books or its secret cannot be read; its own log says why",
    "noise": "its policy asks for more noise on legs (dp) than the run has",
    "epsilon": "its policy's privacy budget (most_epsilon) has no room for it",
    "shape": "its samples do not fit the run",
    "state": "what it kept for this run is gone",
    "setting": "it cannot build the run's model or algorithm",
    "time": "its leg took too long and was ended",
    "crash": "its training process ended",
    "memory": "its training process ran out of memory",
    "failed": "its training failed; its own log says why",
}
