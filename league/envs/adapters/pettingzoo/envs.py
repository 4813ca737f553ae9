"""PettingZoo's envs by name: the functions that make them, and how they are called.

PettingZoo is imported when an env of it is first used.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from league.import_paths import RAISED, why_not_imported
from storage.suggestions import nearest

Api = Literal["auto", "aec", "parallel"]
Maker = Callable[..., Any]


def find_makers(name: str) -> dict[str, Maker]:
    """Return the functions that make the env of this name, by API.

    `name` is an id of PettingZoo, "classic/chess_v6", or the path of a module with `env` or `parallel_env`,
    with dots or slashes, "mpe2/simple_spread_v3". Raise LookupError with what to install, or the nearest ids.
    """
    if importlib.util.find_spec("pettingzoo") is None:
        raise LookupError("pettingzoo is not installed; pip install '.[pettingzoo]'")
    return _registered(name) or _in_module(name)


def open_env(makers: Mapping[str, Maker], api: Api, kwargs: Mapping[str, Any], guarded: bool) -> Any:
    """Return a new env with this `api`; "auto": Parallel if the env offers it.

    PettingZoo's guards against wrong calls are removed unless `guarded`. Raise ValueError for any failure.
    """
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import aec_to_parallel, parallel_to_aec

    with _third_party_warnings():
        try:
            env = _choose(makers, api)(**kwargs)
        except RAISED as error:  # any error here is due to options or installed packages
            raise ValueError(
                f"the env cannot be made with {dict(kwargs)}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(env, AECEnv | ParallelEnv):
            raise ValueError(f"found {env!r}, expected a pettingzoo.AECEnv or ParallelEnv")
        if api == "aec" and isinstance(env, ParallelEnv):
            env = parallel_to_aec(env)
        elif api == "parallel" and isinstance(env, AECEnv):
            if not env.metadata.get("is_parallelizable"):
                raise ValueError("api is 'parallel', but the agents of the env act in turn")
            env = aec_to_parallel(env)
    return env if guarded else _unguarded(env)


def takes_option(makers: Mapping[str, Maker], api: Api, option: str) -> bool:
    """Return whether the env can be made with this option."""
    parameters = inspect.signature(_choose(makers, api)).parameters
    return option in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _choose(makers: Mapping[str, Maker], api: Api) -> Maker:
    return makers.get("parallel" if api == "auto" else api) or next(iter(makers.values()))


def _registered(name: str) -> dict[str, Maker]:
    """Return the functions that make the env with this id in PettingZoo's registry."""
    import pettingzoo

    key = re.sub(r"_v(\d+)$", r"-v\1", name)
    tables = {"aec": pettingzoo.aec_registry, "parallel": pettingzoo.parallel_registry}
    return {api: functools.partial(pettingzoo.make, api, key) for api in tables if key in tables[api]}


def _in_module(name: str) -> dict[str, Maker]:
    path = re.sub("[/:]", ".", name)
    if not path.strip(".") or path.startswith("."):
        raise LookupError(f"there is no such env: {_remedy(name)}")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if f"{path}.".startswith(f"{error.name}."):
            raise LookupError(f"there is no such env, and no module '{path}': {_remedy(name)}") from error
        raise LookupError(f"module '{path}' cannot be imported: {error}") from error
    except RAISED as error:
        raise LookupError(f"module '{path}' cannot be imported: {why_not_imported(error)}") from error
    functions = {"aec": "env", "parallel": "parallel_env"}
    found = {api: getattr(module, each) for api, each in functions.items() if hasattr(module, each)}
    if not found:
        raise LookupError(f"module '{path}' has neither env() nor parallel_env(): {_remedy(name)}")
    return found


def _remedy(name: str) -> str:
    import pettingzoo

    ids = [re.sub(r"-v(\d+)$", r"_v\1", key) for key in pettingzoo.aec_registry]
    near = nearest(name, ids, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "expected an id such as classic/chess_v6, or a module that has env() or parallel_env()"


def _unguarded(env: Any) -> Any:
    """Return the env without PettingZoo's wrappers that only check calls.

    Illegal calls never come from here, and the wrappers take as long as a small game itself.
    """
    from pettingzoo.utils import wrappers
    from pettingzoo.utils.conversions import aec_to_parallel_wrapper

    guards = (
        wrappers.OrderEnforcingWrapper,
        wrappers.AssertOutOfBoundsWrapper,
        wrappers.TerminateIllegalWrapper,
    )
    while type(env) in guards:
        env = env.env
    if type(env) is aec_to_parallel_wrapper:
        env.aec_env = _unguarded(env.aec_env)
    return env


@contextlib.contextmanager
def _third_party_warnings() -> Iterator[None]:
    """Ignore warnings of PettingZoo's own envs and conversions when they are made."""
    with warnings.catch_warnings():
        # texas_holdem_no_limit gives the bounds of its float32 observations as float64
        warnings.filterwarnings("ignore", ".*precision lowered by casting")
        # the conversions warn of an env without a render mode
        warnings.filterwarnings("ignore", ".*does not have a `render_mode` defined")
        yield
