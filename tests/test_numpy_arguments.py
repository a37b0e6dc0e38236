"""Numbers of NumPy and JAX wherever the interface takes a number (param issue 688)."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

import farfield as ff
from farfield import api
from farfield.papers.realizability.conjecture import search
from farfield.seeds.summary import summarize

INTEGERS = [np.int64, np.uint8, np.int32, jnp.int32, np.array]
REALS = [np.float32, np.float64, np.array, jnp.float32]


def seeds_and_lengths(monkeypatch, **settings):
    """The cells that `train` would run."""
    found = []
    monkeypatch.setattr(api, "run", lambda cells, *_, workers=None, **__: found.append((cells, workers)))
    with pytest.raises(TypeError, match="NoneType"):
        ff.train("rope", "offset:1", **settings)
    return found[0]


@pytest.mark.parametrize("whole", INTEGERS)
def test_train_takes_integers_of_any_kind(whole, monkeypatch):
    def settings(number):
        return {
            "seeds": number(3), "lengths": (number(8), number(12)), "test": [number(9), number(20)],
            "workers": number(2), "steps": number(7), "batch": number(5), "vocabulary": number(9),
            "sequences": number(6), "snapshots": [number(0), number(4)],
        }  # fmt: skip

    plain, found = (seeds_and_lengths(monkeypatch, **settings(number)) for number in (int, whole))
    assert found == plain
    assert [cell.identity for cell in found[0]] == [cell.identity for cell in plain[0]]
    assert isinstance(found[1], int)
    json.dumps([cell.config() for cell in found[0]])


def test_train_takes_arrays_where_lists_are(monkeypatch):
    arrays = {
        "seeds": np.array([3, 1]),
        "lengths": np.array([8, 12]),
        "test": np.array([9, 20]),
        "snapshots": np.arange(3),
    }
    lists = {name: value.tolist() for name, value in arrays.items()}
    assert seeds_and_lengths(monkeypatch, **arrays) == seeds_and_lengths(monkeypatch, **lists)


@pytest.mark.parametrize("real", REALS)
def test_train_takes_real_numbers_of_any_kind(real, monkeypatch):
    plain, found = (
        seeds_and_lengths(monkeypatch, learning_rate=number(0.003), seeds=1)[0][0].identity for number in (float, real)
    )
    assert found == plain


@pytest.mark.parametrize("whole", INTEGERS)
def test_predict_takes_integers_of_any_kind(whole):
    def found(number):
        names = {"trained": 8, "tested": 12, "shortest": 2, "width": 16, "draws": 2, "seed": 3}
        return ff.predict(
            "rope", "offset:1", with_openness=False, **{name: number(value) for name, value in names.items()}
        ).to_json()

    assert found(whole) == found(int)


@pytest.mark.parametrize("real", REALS)
def test_predict_takes_real_numbers_of_any_kind(real):
    settings = {"trained": 8, "tested": 12, "with_openness": False}
    plain, found = (
        ff.predict("rope", "offset:1", logit_scale=number(4.5), budget=number(1.5), **settings)
        for number in (float, real)
    )
    assert (found.logit_scale, found.budget) == (plain.logit_scale, plain.budget) == (4.5, 1.5)
    json.dumps(found.to_json())


@pytest.mark.parametrize("whole", INTEGERS)
def test_kernel_show_and_get_take_numbers_of_any_kind(whole):
    def kernel(number):
        return ff.kernel(
            dim=number(8), length=number(32), trained=number(16), offsets=[number(1)], logit_scale=number(4)
        )

    def shown(number):
        settings = {"dim": number(8), "length": number(9), "trained": number(4), "seed": number(1)}
        return ff.show("yarn", {"factor": number(2)}, head=(number(0), number(2)), **settings)

    assert kernel(whole).to_json() == kernel(int).to_json()
    assert shown(whole).to_json() == shown(int).to_json()
    assert ff.encodings.get("rope", dim=whole(8), base=whole(100)) == ff.encodings.get("rope", base=100)


@pytest.mark.parametrize("bases", [np.array([1e4, 5e5]), jnp.array([1e4, 5e5]), np.array([1e4, 5e5], np.float32)])
def test_kernel_takes_bases_in_an_array(bases):
    plain = ff.kernel(base=[1e4, 5e5], dim=16, length=64)
    assert ff.kernel(base=bases, dim=16, length=64).to_json() == plain.to_json()
    assert ff.kernel(base=bases[0], dim=16, length=64).entries == plain.entries[:1]


@pytest.mark.parametrize("whole", INTEGERS)
def test_conjecture_and_summaries_take_numbers_of_any_kind(whole, monkeypatch):
    monkeypatch.setattr(search._Searcher, "run", lambda self, seconds, cases, _: (self.search.seed, seconds, cases))
    assert ff.conjecture(seconds=whole(1), seed=whole(2), cases=whole(3)) == (2, 1.0, 3)
    assert summarize([], wanted=whole(2), fit=whole(1)) == []


@pytest.mark.parametrize("whole", INTEGERS)
def test_a_study_takes_numbers_of_any_kind(whole):
    def cells(number):
        common = {"encoding": "rope", "task": "offset:1", "steps": number(9), "test": [number(16), number(20)]}
        seeds = {"model": number(2), "data": [number(5)]}
        return ff.Study(name="a", question="Which?", seeds=seeds, common=common, grid={"batch": [number(8)]}).cells()

    assert cells(whole) == cells(int)
    assert len(cells(whole)) == 2


def test_a_study_takes_arrays_where_lists_are():
    common = {"encoding": "rope", "task": "offset:1", "test": np.array([16, 20]), "lengths": np.array([8, 12])}
    study = ff.Study(name="a", question="Which?", seeds=np.arange(2), common=common, grid={"steps": np.array([5, 6])})
    plain = study.to_json()
    json.dumps(plain)
    assert ff.Study(**plain).cells() == study.cells()
    assert (plain["seeds"]["model"], plain["common"]["lengths"]) == (2, "8:12")


@pytest.mark.parametrize("truth", [True, np.True_, np.array(True)])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda number: ff.train("rope", "offset:1", seeds=number), "seeds"),
        (lambda number: ff.train("rope", "offset:1", steps=number), "steps"),
        (lambda number: ff.train("rope", "offset:1", workers=number), "workers"),
        (lambda number: ff.predict("rope", "offset:1", trained=number), "trained"),
        (lambda number: ff.predict("rope", "offset:1", seed=number), "seed"),
        (lambda number: ff.predict("rope", "offset:1", budget=number), "budget"),
        (lambda number: ff.kernel(dim=number), "dim"),
        (lambda number: ff.kernel(logit_scale=number), "logit_scale"),
        (lambda number: ff.show("rope", dim=number), "dim"),
        (lambda number: ff.show("rope", head=number), "head"),
        (lambda number: ff.conjecture(seconds=number), "seconds"),
        (lambda number: ff.conjecture(cases=number), "cases"),
        (lambda number: ff.encodings.get("rope", dim=number), "dim"),
        (lambda number: summarize([], wanted=number), "wanted"),
        (lambda number: summarize([], fit=number), "fit"),
        (lambda number: ff.Study(name="a", question="Which?", seeds=number), "seeds"),
    ],
)
def test_a_truth_value_is_not_a_number(call, name, truth):
    with pytest.raises(ff.FarfieldError, match=f"{name} = "):
        call(truth)
