from ._builtin import BuiltIn

__all__ = ['ChangeTrueDivToMulByInverse', 'FuseBatchNorm1dInLinear', 'FuseBatchNorm2dInConv2d', 'FuseBiasInLinear', 'MergeLinears']

class ChangeTrueDivToMulByInverse(BuiltIn):
    """x / c, c a constant -> x * (1/c)"""

class FuseBatchNorm1dInLinear(BuiltIn):
    """linear -> batch norm, and batch norm -> linear: one linear"""

class FuseBatchNorm2dInConv2d(BuiltIn):
    """batch norm after a convolution -> scaled weight, shifted bias"""

class FuseBiasInLinear(BuiltIn):
    """linear(x, W, b) -> linear(pad(x, a column of ones), [W b])"""

class MergeLinears(BuiltIn):
    """two or more linears with the same input -> one linear and slices of its output"""
