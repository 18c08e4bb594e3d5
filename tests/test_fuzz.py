"""The corpus of odd messages, and some more of each kind: nothing but Garbled, and every run comes to its end."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuzz
from baton.deploy import frames

KINDS = st.sampled_from(
    ["Look", "Here", "Train", "Trained", "Half", "Halved", "Evaluate", "Sums", "Answer", "Up", "None"]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
FIELDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.fixed_dictionaries({"at": inner}),
        st.fixed_dictionaries({"of": st.dictionaries(st.text(max_size=4), inner, max_size=3)}),
        st.fixed_dictionaries({"is": KINDS, "has": st.lists(inner, max_size=8)}),
    ),
    max_leaves=12,
)
ARRAYS = st.lists(
    st.tuples(st.sampled_from(["float32", "int64", "uint8", "bool"]), st.lists(st.integers(-1, 2**50), max_size=4)),
    max_size=3,
)


@pytest.mark.parametrize("path", sorted(fuzz.CORPUS.glob("*.bin")), ids=lambda path: path.stem)
def test_the_corpus_is_read_or_garbled(path: Path) -> None:
    kind = fuzz.read(path.read_bytes())
    assert (kind != "garbled") == path.stem.startswith("sound")


def test_mutated_messages_are_read_or_garbled() -> None:
    draw, corpus = random.Random(5), fuzz.seeds()
    assert {fuzz.read(fuzz.mutated(draw.choice(corpus), draw)) for _ in range(2000)} > {"garbled", "Halved"}


@settings(max_examples=300)
@given(says=FIELDS, arrays=ARRAYS, body=st.binary(max_size=64))
def test_made_up_messages_are_read_or_garbled(says: object, arrays: object, body: bytes) -> None:
    fuzz.read(frames.joined({"seconds": 1.0, "says": says, "arrays": arrays}, [body]))


@pytest.mark.parametrize("spec", ["parallel", "scaffold", "ssl:cut=1"])
def test_a_run_over_sites_that_say_anything_comes_to_its_end(spec: str, tmp_path: Path) -> None:
    assert fuzz.federation(spec, tmp_path, random.Random(3), 0.9)["replies"] > 0
