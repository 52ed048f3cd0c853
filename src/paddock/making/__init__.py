"""make(): locate the target, plan (pure, printable), build. The only package that knows every distance."""

from paddock.making.build import build, resolve
from paddock.making.make_env import OpenEnv, make, make_async, make_vec, permissions, warm
from paddock.making.options import LaneOptions, RemoteOptions
from paddock.making.plan import Plan, plan
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
