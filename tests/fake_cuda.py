"""Run code on a pretended GPU: FakeTensorMode on device cuda, where a tensor left on the CPU fails.

FakeTensorMode computes shapes, dtypes and devices without data, so no GPU is needed. In a CPU build of torch a few
Python entry points (indexing, ``~``, ``.to(device)``, ``copy_``) ask for the CUDA runtime before they reach the fake
tensors; the mode below sends those through operators that do not. Autograd does too, so gradients are checked on device
meta, where mixing with the CPU fails in the same way.
"""

from contextlib import contextmanager

import pyro
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten


class _WithoutCudaRuntime(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.__getitem__:
            return _index(*args)
        if func is torch.Tensor.__invert__:
            return aten.bitwise_not(*args)
        if func is torch.Tensor.new:  # torch's Laplace makes its noise so
            return torch.empty(args[1], dtype=args[0].dtype, device=args[0].device)
        if func in (torch.tensor, torch.as_tensor) and str(kwargs.get("device")) == "meta":
            data = args[0] if isinstance(args[0], torch.Tensor) else torch.zeros(torch.Size(_shape_of(args[0])))
            return torch.empty(data.shape, dtype=kwargs.get("dtype") or data.dtype, device="meta")
        if func is torch.Tensor.uniform_:
            return args[0]
        if func is torch.Tensor.copy_:
            args[0].shape, args[1].expand(args[0].shape)  # the shapes must fit
            return args[0]
        if func is torch.Tensor.to:
            device = kwargs.get("device", next((a for a in args[1:] if isinstance(a, str | torch.device)), None))
            if device is not None:
                dtype = kwargs.get("dtype", next((a for a in args[1:] if isinstance(a, torch.dtype)), args[0].dtype))
                return torch.empty(args[0].shape, dtype=dtype, device=device)
        return func(*args, **kwargs)


def _shape_of(data):
    return (len(data), *_shape_of(data[0])) if isinstance(data, list | tuple) else ()


def _index(tensor, index):
    index = index if isinstance(index, tuple) else (index,)
    taken = sum(1 for i in index if i is not None and i is not Ellipsis)
    if not any(i is Ellipsis for i in index):
        index = (*index, Ellipsis)
    position = index.index(Ellipsis)
    index = index[:position] + (slice(None),) * (tensor.dim() - taken) + index[position + 1 :]
    dim, gathers = 0, {}
    for i in index:
        if i is None:
            tensor = aten.unsqueeze(tensor, dim)
        elif isinstance(i, int):
            tensor = aten.select(tensor, dim, i)
            continue
        elif isinstance(i, slice):
            tensor = aten.slice(tensor, dim, i.start, i.stop, i.step or 1)
        else:
            gathers[dim] = i if isinstance(i, torch.Tensor) else torch.tensor(i, device=tensor.device)
        dim += 1
    if not gathers:
        return tensor
    return aten.index(tensor, [gathers.get(d) for d in range(tensor.dim())])


@contextmanager
def fake_device(device):
    """Fake tensors on ``device``; value checks are off, for fake tensors have no values."""
    with FakeTensorMode(), _WithoutCudaRuntime(), pyro.validation_enabled(False):
        yield torch.device(device)
