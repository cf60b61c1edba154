"""Arrays of either kind, torch's tensors or NumPy's arrays, under one set of names.

The searches and what they need of the lattice are written once, as torch code: methods of tensors, and functions of
``xp = namespace(array)``, which is torch itself for tensors and :mod:`ssnt.arrays.numpy_ops` for NumPy. Importing this
does not import torch.

==============  =====================================================================================
module          what
==============  =====================================================================================
``kinds``       which kind an array is, and what goes with it
``array``       NumPy arrays with the methods of tensors
``numpy_ops``   NumPy's functions with the names and meanings of torch's
``protocol``    what both kinds have, for annotations
``device``      where NumPy's arrays are
==============  =====================================================================================
"""

from ssnt.arrays.array import Array, plain, wrapped
from ssnt.arrays.device import NUMPY, NumpyDevice
from ssnt.arrays.kinds import is_array, is_numpy, namespace, namespace_on, no_grad, padded_rows, placed, unrounded
from ssnt.arrays.protocol import Namespace

__all__ = [
    "NUMPY",
    "Array",
    "Namespace",
    "NumpyDevice",
    "is_array",
    "is_numpy",
    "namespace",
    "namespace_on",
    "no_grad",
    "padded_rows",
    "placed",
    "plain",
    "unrounded",
    "wrapped",
]
