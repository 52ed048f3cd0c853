"""``gymnasium.wrappers.utils``."""

from paddock.wrappers.rescale import rescale_box
from paddock.wrappers.running_statistics import RunningMeanStd, update_mean_var_count_from_moments
from paddock.wrappers.zero_array import create_zero_array

__all__ = ["RunningMeanStd", "create_zero_array", "rescale_box", "update_mean_var_count_from_moments"]
