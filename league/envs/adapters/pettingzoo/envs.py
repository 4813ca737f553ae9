"""Where PettingZoo's envs come from: what makes the one of a name, and how it is made.

Nothing here imports PettingZoo before an env of it is asked for.
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

from storage.suggestions import nearest

Api = Literal["auto", "aec", "parallel"]
Maker = Callable[..., Any]


def find_makers(name: str) -> dict[str, Maker]:
    """What makes the env of this name, by API: an id of PettingZoo's own, "classic/chess_v6", or a module
    that has `env` or `parallel_env`, its path spelled with dots or slashes, "mpe2/simple_spread_v3".

    Raises LookupError, saying what to install, or naming the nearest ids.
    """
    if importlib.util.find_spec("pettingzoo") is None:
        raise LookupError("pettingzoo is not installed; pip install 'checkpoint-league[pettingzoo]'")
    return _registered(name) or _in_module(name)


def open_env(makers: Mapping[str, Maker], api: Api, kwargs: Mapping[str, Any], guarded: bool) -> Any:
    """A new env that speaks `api`; "auto": all agents act at once if the env offers it. Without PettingZoo's
    guards against wrong calls unless `guarded`.

    Raises ValueError, whatever goes wrong.
    """
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import aec_to_parallel, parallel_to_aec

    with _third_party_warnings():
        try:
            env = _choose(makers, api)(**kwargs)
        except Exception as error:  # whatever it raises, it is the options, or what is installed
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
    """Whether the env may be made with that option."""
    parameters = inspect.signature(_choose(makers, api)).parameters
    return option in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _choose(makers: Mapping[str, Maker], api: Api) -> Maker:
    return makers.get("parallel" if api == "auto" else api) or next(iter(makers.values()))


def _registered(name: str) -> dict[str, Maker]:
    """What makes the env that PettingZoo registers under this id."""
    import pettingzoo

    key = re.sub(r"_v(\d+)$", r"-v\1", name)
    tables = {"aec": pettingzoo.aec_registry, "parallel": pettingzoo.parallel_registry}
    return {api: functools.partial(pettingzoo.make, api, key) for api in tables if key in tables[api]}


def _in_module(name: str) -> dict[str, Maker]:
    path = re.sub("[/:]", ".", name)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if f"{path}.".startswith(f"{error.name}."):
            raise LookupError(f"there is no such env, and no module '{path}': {_remedy(name)}") from error
        raise LookupError(f"module '{path}' cannot be imported: {error}") from error
    except ImportError as error:
        raise LookupError(f"module '{path}' cannot be imported: {error}") from error
    except (TypeError, ValueError) as error:  # "", "..": no path at all
        raise LookupError(f"there is no such env: {_remedy(name)}") from error
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
    """The env without those of PettingZoo's wrappers that only check what it is told: nothing illegal
    comes from here, and they take as long as a small game itself.
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
    """Let pass what PettingZoo's own envs and conversions warn of when they are made."""
    with warnings.catch_warnings():
        # texas_holdem_no_limit gives the bounds of its float32 observations as float64
        warnings.filterwarnings("ignore", ".*precision lowered by casting")
        # the conversions mention an env that shows nothing
        warnings.filterwarnings("ignore", ".*does not have a `render_mode` defined")
        yield
