"""Formulas of the paper, read from its LaTeX and evaluated: what the theory room's numbers are held against."""

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "shared" / "paper"
TOKEN = re.compile(r"\\[a-zA-Z]+|\d|[A-Za-z]|\S")
NAMES = {r"\sigma": "sigma", r"\zeta": "zeta", r"\mu": "mu", r"\beta": "beta", r"\eta": "h"}


class Formulas:
    """A formula of the paper at given numbers."""

    def __init__(self, text: str, symbols: dict[str, float]) -> None:
        for pattern, stands in (
            (r"_\\ast", ""),
            (r"\\(?:N|n)orm\{\\rvx\^\{\(0\)\}- ?\\rvx\^[*]\}\^2", " D^2"),
            (r"\\left\(F\(\\rvx\^\{0\}\) - F\^\\ast\\right\)", " A"),
            (r"\\tilde\{\\eta\}|\\tilde\\eta", r"\\eta"),
            (r"\\tfrac", r"\\frac"),
            (r"\\left|\\right|\\,|\\cdot", ""),
        ):
            text = re.sub(pattern, stands, text)
        self.tokens = TOKEN.findall(text)
        self.symbols = symbols

    def value(self) -> float:
        found = self.sum()
        assert not self.tokens, self.tokens
        return found

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str = "") -> str:
        token = self.tokens.pop(0)
        assert wanted in ("", token), (wanted, token)
        return token

    def sum(self) -> float:
        total = -self.product() if self.peek() == "-" and self.take() else self.product()
        while self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            total += sign * self.product()
        return total

    def product(self) -> float:
        total = self.power()
        while self.peek() not in ("", "+", "-", "}", ")"):
            if self.peek() == "/":
                self.take()
                total /= self.power()
            else:
                total *= self.power()
        return total

    def power(self) -> float:
        base = self.atom()
        if self.peek() == "^":
            self.take()
            base **= self.group() if self.peek() == "{" else float(self.take())
        return base

    def group(self) -> float:
        self.take("{")
        inner = self.sum()
        self.take("}")
        return inner

    def atom(self) -> float:
        token = self.peek()
        if token == "{":
            return self.group()
        self.take()
        if token == "(":
            inner = self.sum()
            self.take(")")
            return inner
        if token == r"\frac":
            top = self.group()
            return top / self.group()
        if token == r"\sqrt":
            return math.sqrt(self.group())
        if token == r"\exp":
            return math.exp(self.atom())
        if token.isdigit():
            while self.peek().isdigit():
                token += self.take()
            return float(token)
        return self.symbols[NAMES.get(token, token)]


NUMBERS = {"L": 1.7, "mu": 0.3, "sigma": 1.1, "zeta": 0.6, "beta": 0.4, "D": 2.3, "A": 3.1}
NUMBERS |= {"M": 9.0, "S": 4.0, "K": 6.0, "R": 70.0}
CONSTANTS = {symbol: value for symbol, value in NUMBERS.items() if symbol not in ("S", "beta")}  # Table 1's
COMMON: dict[str, Any] = {"L": 2, "mu": Fraction(1, 2), "sigma": 3, "zeta": Fraction(1, 2), "beta": 0, "D": 4, "A": 5}
COMMON |= {"M": 5, "S": 5, "K": 10, "R": 100}


def floats(symbols: dict[str, Any]) -> dict[str, Any]:
    return {symbol: float(value) if isinstance(value, Fraction) else value for symbol, value in symbols.items()}


def source() -> str:
    """The paper's, or no test."""
    found = sorted(SOURCE.glob("*.txt"))
    if not found:
        pytest.skip("the paper's source, which the formulas are held against, is not on this machine")
    return found[0].read_text("utf-8")
