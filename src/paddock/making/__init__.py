"""make(): locate the target, plan (pure, printable), build. The only package that knows every place."""

from paddock.making.build import build, resolve
from paddock.making.doors import OpenEnv, make, make_async, make_vec, permissions, warm
from paddock.making.lane_options import LaneOptions
from paddock.making.plan import Plan, plan
from paddock.making.remote_options import RemoteOptions
from paddock.making.target import Target, locate

__all__ = [
    "LaneOptions",
    "OpenEnv",
    "Plan",
    "RemoteOptions",
    "Target",
    "build",
    "locate",
    "make",
    "make_async",
    "make_vec",
    "permissions",
    "plan",
    "resolve",
    "warm",
]
