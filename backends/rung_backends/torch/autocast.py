"""Products in the dtype that they are given in.

Autocast rounds what is multiplied to a half type, where a contract asks for the accuracy of the dtype of its arguments.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["as_given"]


def as_given(device: torch.device) -> AbstractContextManager[object]:
    """Give a context without autocast on a device; on one where it is off already, one that does nothing."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
