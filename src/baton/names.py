"""Names as users write them: `exdir:C=1,alpha=10`, or `package.module:factory` for what is not registered.

One keyword of a function may be marked `Rest`: it takes all that follows the name, as PATH in `file:PATH`; or `First`:
it takes what comes before the options, as PATH in `csv:PATH,label=y`. Numbers may be marked `lane`: runs that differ in
nothing else are lanes of one program.
"""

import inspect
import re
from collections.abc import Callable, Container, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from math import inf, isinf
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from baton import synonyms
from baton.errors import BadInput, nearest
from baton.usercode import imported, told

Value = int | float | str | bool
KINDS = {int: "a whole number", float: "a number", bool: "true or false"}


class LayerName(str):
    """The type of a keyword that takes a layer's name."""


class Nested(str):
    """The type of a keyword that takes another registered spec of its room, with + where that has commas.

    `switch:first=sequential,then=fedavgm:beta=0.5+server_lr=2`.
    """


class Rest(NamedTuple):
    """Marks the keyword that takes a spec's whole rest: `path: Annotated[str, Rest(settle)]`."""

    settle: Callable[[str], str]  # its value as the one spelling has it


class First(NamedTuple):
    """Marks the keyword that takes what comes before the options: `path: Annotated[str, First(settle)]`.

    An option begins behind a comma, with a word and an equals sign. So a path may hold commas and equals signs, and an
    option's value commas; where `,word=` stands in a file's name, a glob's `?` can stand for the comma.
    """

    settle: Callable[[str], str]


OPTION = re.compile(r",(?=\s*[A-Za-z_]\w*=)")  # the comma before an option that follows what is marked First


CALL = re.compile(r"\s*([^():]+?)\s*\(([^()]*)\)\s*")  # a name as papers write it, with its values in brackets


class LaneOption(NamedTuple):
    """A number that may differ from lane to lane, and where it may lie."""

    default: float
    least: float
    above: float
    below: float
    most: float

    def holds(self, value: float) -> bool:
        """Whether the number is finite and inside its bounds."""
        return self.least <= value <= self.most and self.above < value < self.below

    def right(self) -> str:
        """The bounds in words: `0 or more`, `above 0 and below 1`."""
        ways = ("{} or more", "above {}", "below {}", "{} or less")
        bounds = [way.format(_text(bound)) for way, bound in zip(ways, self[1:], strict=True) if not isinf(bound)]
        return " and ".join(bounds) or "a finite number"


def lane(default: float, *, least: float = -inf, above: float = -inf, below: float = inf, most: float = inf) -> Any:
    """Marks a number as a column of lanes and says where it may lie.

    It stands where the default would, in `def fedprox(*, mu: Tensor = lane(0.01, least=0.0))`: the function is given
    one number a lane there, so that the declared type is a tensor's.
    """
    return LaneOption(*map(float, (default, least, above, below, most)))


def _value(text: str) -> Value:
    """A number, a fraction such as 1/3, true/false, or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return _float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        return text


def _float(value: int | Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    ratio = Fraction(value).limit_denominator(1000) if isinstance(value, float) and len(repr(value)) > 12 else None
    return str(ratio) if ratio is not None and float(ratio) == value else str(value)  # 1/3 stays 1/3


def path(spec: str, known: Container[str]) -> str:
    """The `package.module:factory` that a spec names; "" where it does not name a user's own. Imports nothing."""
    head, _, tail = spec.partition(":")
    if not tail or head in known:
        return ""
    factory = tail.partition(":")[0]
    return "" if "=" in factory else f"{head}:{factory}"


def behind(field: str, spec: str, known: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The user's own function that a spec names, as it is now; None where it is a registered one."""
    name = path(spec, known)
    return imported(field, name, known) if name else None


def _name(field: str, spec: str, known: Mapping[str, Any]) -> tuple[str, str]:
    """(name, what follows its colon); name is registered or a `package.module:factory` path."""
    head, _, tail = spec.partition(":")
    if head in known:
        return head, tail
    own = path(spec, known)
    if own:
        return own, spec[len(own) + 1 :]
    if call := CALL.fullmatch(spec):
        return _name(field, _from_call(field, call[1], call[2], known), known)
    if meant := synonyms.registered(field, head, known):
        name, _, before = meant.partition(":")
        return name, ",".join(filter(None, (before, tail)))
    raise BadInput(f"{field}: no {field} named {head!r}; {_nearest(field, head, known)}")


def _from_call(field: str, head: str, arguments: str, known: Mapping[str, Any]) -> str:
    """Return the spec that a paper writes as a call: `exdir:C=1,alpha=10.0` for `ExDir(1, 10.0)`."""
    name, before = _name(field, head, known)
    values = [value.strip() for value in arguments.split(",") if value.strip()]
    keys = list(options(find(field, name, known)))
    if len(values) > len(keys):
        raise BadInput(f"{field}: {head}({arguments}) has {len(values)} values; expected at most {len(keys)}")
    given = [value if "=" in value else f"{key}={value}" for key, value in zip(keys, values, strict=False)]
    return f"{name}:{','.join(filter(None, (before, *given)))}"


def _nearest(field: str, word: str, known: Mapping[str, Any]) -> str:
    """Return the end of an error line: the name, of all that may be written, that is closest to this word."""
    names = synonyms.names_like(field, known)
    close = get_close_matches(synonyms.fold(word), names, n=1, cutoff=0.5)
    return f"did you mean {names[close[0]]!r}?" if close else nearest(word, known)


def split(field: str, spec: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Value]]:
    """`name:key=value,...` -> (name, {key: value})."""
    head, tail = _name(field, spec, known)
    function = known[head] if callable(known.get(head)) else None
    rest = _rest(function) if function else None
    if rest:
        return head, {rest[0]: tail}
    return head, {key: _value(text) for key, text in _params(field, spec, tail, function).items()}


def _params(field: str, spec: str, tail: str, function: Callable[..., Any] | None = None) -> dict[str, str]:
    """Values as they are written: a layer may be called 0.10, which is no number."""
    params, items = dict[str, str](), tail.split(",")
    if first := _first(function) if function else None:
        head, *items = OPTION.split(tail)
        params |= {first[0]: head.strip()} if head.strip() else {}
    for item in filter(None, items):
        key, equals, value = item.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise BadInput(f"{field}: {spec!r} has {item!r} where key=value is right, as in name:key=value,key=value")
        if key.strip() in params:
            raise BadInput(f"{field}: {spec!r} gives {key.strip()!r} twice")
        params[key.strip()] = value.strip()
    return params


def find(field: str, name: str, known: Mapping[str, Any]) -> Any:
    """What a registered name or a `package.module:factory` path stands for."""
    if name in known:
        return known[name]
    function = imported(field, name, known)
    try:
        options(function)
    except Exception as error:
        raise BadInput(f"{field}: {name!r} has options that cannot be read ({told(error)})") from error
    return function


def _check(field: str, name: str, key: str, text: str, parameter: inspect.Parameter, known: Mapping[str, Any]) -> Value:
    wanted = _kind(parameter.annotation)
    if wanted is Nested:
        return _inner(field, name, key, text, known)
    if wanted in (str, LayerName):  # any word, though it may look like a number: a layer may be called 0.10
        return text
    value = _value(text)
    if wanted is float and type(value) is int:
        return _float(value)
    if isinstance(wanted, type) and wanted in KINDS and type(value) is not wanted:
        raise BadInput(f"{field}: {name}:{key}={_text(value)} is not {KINDS[wanted]}")
    return value


def _inner(field: str, name: str, key: str, text: str, known: Mapping[str, Any]) -> str:
    """A nested spec in its one spelling."""
    if path(unnested(text), known):
        raise BadInput(f"{field}: {name}:{key}={text} is code of your own; a registered {field} is right here")
    inner, function, params = bind(field, unnested(text), known)
    if _nested(function) or _rest(function):
        raise BadInput(f"{field}: {name}:{key}={text} cannot stand inside another; a plain {field} is right here")
    return _spelled(inner, function, params).replace(",", "+")


def unnested(text: Value) -> str:
    """The spec that a nested one stands for."""
    return str(text).replace("+", ",")


def _within(field: str, name: str, key: str, value: float, mark: LaneOption) -> float:
    if not mark.holds(value):
        raise BadInput(f"{field}: {name}:{key}={_text(value)}; {mark.right()} is right")
    return value


def _kind(annotation: Any) -> Any:
    """int for `int | None` and for int: None stands for a default that depends on the other options."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return kinds[0] if get_origin(annotation) is UnionType and len(kinds) == 1 else annotation


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function, eval_str=True).parameters
    return {name: p for name, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


@cache
def options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters a user may give by name: the keyword-only ones. Those marked `lane` are floats here."""
    marks = _marks(function)
    return {
        key: p.replace(default=marks[key].default, annotation=float) if key in marks else p
        for key, p in _parameters(function).items()
    }


@cache
def _marks(function: Callable[..., Any]) -> dict[str, LaneOption]:
    return {key: p.default for key, p in _parameters(function).items() if isinstance(p.default, LaneOption)}


@cache
def _nested(function: Callable[..., Any]) -> list[str]:
    """The keywords that take another spec."""
    return [key for key, p in _parameters(function).items() if _kind(p.annotation) is Nested]


def inner(field: str, spec: str, known: Mapping[str, Any]) -> dict[str, str]:
    """The specs inside a spec, given or by default."""
    _, function, params = bind(field, spec, known)
    return {key: unnested(params.get(key, options(function)[key].default)) for key in _nested(function)}


def _rest(function: Callable[..., Any]) -> tuple[str, Rest] | None:
    """The keyword marked Rest, if there is one."""
    found = _marked(function)
    return found if found and isinstance(found[1], Rest) else None  # type: ignore[return-value]


def _first(function: Callable[..., Any]) -> tuple[str, First] | None:
    """The keyword marked First, if there is one."""
    found = _marked(function)
    return found if found and isinstance(found[1], First) else None  # type: ignore[return-value]


@cache
def _marked(function: Callable[..., Any]) -> tuple[str, Rest | First] | None:
    for key, parameter in options(function).items():
        if get_origin(parameter.annotation) is Annotated:
            for mark in get_args(parameter.annotation)[1:]:
                if isinstance(mark, Rest | First):
                    return key, mark
    return None


def bind(field: str, spec: str, known: Mapping[str, Any]) -> tuple[str, Callable[..., Any], dict[str, Value]]:
    """(name, what it stands for, its parameters), every parameter checked against the function's keyword arguments.

    Parameters that were not given are left to the function, except those marked `lane`: their default is a mark.
    """
    name, tail = _name(field, spec, known)
    function = find(field, name, known)
    if rest := _rest(function):
        if not tail.strip():
            raise BadInput(f"{field}: {name} needs its {rest[0]}, as in {signature(name, function)}")
        return name, function, {rest[0]: tail}
    given, allowed, first = _params(field, spec, tail, function), options(function), _first(function)
    for key in given:
        if key not in allowed:
            hint = nearest(key, allowed) if allowed else "it takes none"
            raise BadInput(f"{field}: {name} has no parameter {key!r}; {hint}")
    for key, parameter in allowed.items():
        if parameter.default is parameter.empty and key not in given:
            right = signature(name, function) if first else f"{name}:{key}=1"
            raise BadInput(f"{field}: {name} needs {key}, as in {right}")
    marks, found = _marks(function), dict[str, Value]()
    for key, parameter in allowed.items():
        if key in given:
            found[key] = _check(field, name, key, given[key], parameter, known)
        if mark := marks.get(key):
            found[key] = _within(field, name, key, float(found.get(key, mark.default)), mark)
    return name, function, found


def canonical(field: str, spec: str, known: Mapping[str, Any]) -> str:
    """The one spelling of a spec: parameters in the function's order, those at their defaults left out."""
    return _spelled(*bind(field, spec, known))


def lanes_of(field: str, spec: str, known: Mapping[str, Any]) -> dict[str, float]:
    """The parameters marked `lane` with their values, given or not, in the function's order."""
    _, function, params = bind(field, spec, known)
    return {key: float(params[key]) for key in _marks(function)}


def shared(field: str, spec: str, known: Mapping[str, Any]) -> str:
    """The spec without its parameters marked `lane`: what must be equal for two runs to be lanes of one program."""
    name, function, params = bind(field, spec, known)
    marks, less = _marks(function), dict(params)
    for key, nested in inner(field, spec, known).items():
        less[key] = shared(field, nested, known).replace(",", "+")
    ordered = {key: less[key] for key in options(function) if key in less and key not in marks}
    return _spelled(name, function, ordered)


def _spelled(name: str, function: Callable[..., Any], params: Mapping[str, Value]) -> str:
    if rest := _rest(function):
        return f"{name}:{rest[1].settle(str(params[rest[0]]))}"
    defaults, first = options(function), _first(function)
    given = [
        first[1].settle(str(value)) if first and key == first[0] else f"{key}={_text(value)}"
        for key, value in params.items()
        if value != defaults[key].default
    ]
    return name + (":" + ",".join(given) if given else "")


def extended(field: str, spec: str, known: Mapping[str, Any], key: str, value: Value) -> str:
    """The spec with one more parameter, in its one spelling."""
    name, tail = _name(field, spec, known)
    return canonical(field, f"{name}:{','.join(filter(None, (tail, f'{key}={_text(value)}')))}", known)


def signature(name: str, function: Callable[..., Any]) -> str:
    """How a name may be written, for listings: `exdir:C=…,alpha=…,seed=0`; [k=…] may be left out."""
    if rest := _rest(function):
        return f"{name}:{rest[0].upper()}"
    first = _first(function)
    shown = [k.upper() if first and k == first[0] else _shown(k, p.default) for k, p in options(function).items()]
    return name + (":" + ",".join(shown) if shown else "")


def _shown(key: str, default: Any) -> str:
    if default is None or default == "":
        return f"[{key}=…]"
    return f"{key}={'…' if default is inspect.Parameter.empty else _text(default)}"


def says(function: Callable[..., Any]) -> str:
    """What a function says of itself, in the first line of its docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def columns(function: Callable[..., Any]) -> list[str]:
    """The options marked `lane`."""
    return list(_marks(function))


def option(field: str, spec: str, known: Mapping[str, Any], key: str) -> Value | None:
    """The value of one option of a spec, given or by default; None where it has no such option."""
    _, function, given = bind(field, spec, known)
    return given.get(key, options(function)[key].default) if key in options(function) else None


def without(field: str, spec: str, known: Mapping[str, Any], keys: Container[str]) -> str:
    """What is left of a spec less some of its options; it may lack one that it needs."""
    name, tail = _name(field, spec, known)
    function = find(field, name, known)
    if rest := _rest(function):
        return name if rest[0] in keys else spec
    first, given = _first(function), _params(field, spec, tail, function)
    kept = ",".join(
        text if first and key == first[0] else f"{key}={text}" for key, text in given.items() if key not in keys
    )
    return f"{name}:{kept}" if kept else name


def replaced(field: str, spec: str, known: Mapping[str, Any], given: Mapping[str, Value]) -> str:
    """The spec with these options in place of what it says of them, in its one spelling."""
    name, tail = _name(field, without(field, spec, known, given), known)
    function = find(field, name, known)
    rest, first = _rest(function), _first(function)
    parts = [tail] if tail else []
    for key, value in given.items():
        if not isinstance(value, Value) or (isinstance(value, str) and "," in value and not (rest or first)):
            raise BadInput(f"{field}.{key}: {value!r} is not a number or a word")
        if first and key == first[0]:
            parts.insert(0, str(value))
            continue
        if rest and key != rest[0]:
            raise BadInput(f"{field}: {name} has no parameter {key!r}; {nearest(key, [rest[0]])}")
        parts.append(_text(value) if rest else f"{key}={_text(value)}")
    return canonical(field, f"{name}:{','.join(parts)}", known)
