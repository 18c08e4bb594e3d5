"""Operations that are watched as they happen."""

from torch.utils._python_dispatch import TorchDispatchMode


class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What torch has for that, without its compiler, which it would load on the way; that takes more than a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
