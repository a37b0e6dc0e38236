"""`farfield kernel` and `ff.kernel`: against sums written out plainly, printed numbers, and what must always hold."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import farfield as ff
from farfield.analysis.kernels import split_encodings
from farfield.cli import main
from farfield.errors import FarfieldError
from farfield.plotting.style import check_path
from farfield.probes.kernel import ROUNDING, first_valley, kernel, kernel_by_blocks, kernel_shape
from farfield.probes.kernel_dilution import rival_sums, target_dilution

ROPE128 = 500000.0 ** (-np.arange(0, 128, 2) / 128)


def said(arguments, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main(["kernel", *arguments])
    return ended.value.code, capsys.readouterr()


def test_json_has_the_known_breadth_and_what_a_plain_sum_finds(capsys, monkeypatch):
    code, output = said(["--dim", "128", "--base", "500000", "--length", "131072", "--json"], capsys, monkeypatch)
    content = json.loads(output.out)
    (entry,) = content["entries"]
    assert code == 0
    assert round(entry["breadth"], 4) == 0.9779  # farfield show rope --base 500000 --dim 128
    near = np.cos(np.arange(200)[:, None] * ROPE128).mean(axis=1)
    valley = int(np.argmax(np.diff(near) > 0))
    assert entry["realignment_at"] == valley + int(near[valley:].argmax()) == 12
    assert entry["realignment"] == pytest.approx(near[12], abs=1e-13)
    for name in ("realignment", "beyond_trained"):
        s = entry[f"{name}_at"]
        assert entry[name] == pytest.approx(np.cos(s * ROPE128).mean(), abs=1e-11)
    assert entry["beyond_trained_at"] >= 8192
    assert entry["unique"] is True
    assert {name: content[name] for name in ("breadth", "realignment", "realignment_at", "unique")} == {
        name: entry[name] for name in ("breadth", "realignment", "realignment_at", "unique")
    }
    assert content | {"dim": 128, "length": 131072, "trained": 8192, "logit_scale": 8.0, "weights": "equal"} == content
    assert entry["encoding"] == {"name": "rope", "base": 500000.0, "layout": "half", "fraction": 1.0}


def test_far_realignments_are_those_of_the_documentation():
    compared = ff.kernel("rope", base=[1e3, 1e4, 1e5], dim=64, trained=48)
    assert [round(entry.beyond_trained, 2) for entry in compared.entries] == [0.47, 0.59, 0.65]
    assert [entry.realignment_at for entry in compared.entries] == [6, 6, 6]


@pytest.mark.parametrize("reach", [1, 4, 47, 1000])
def test_the_kernel_by_blocks_is_the_kernel(reach):
    weights = np.random.default_rng(0).random(64)
    for given_weights in (None, weights):
        blocks = kernel_by_blocks(ROPE128, reach, given_weights)
        np.testing.assert_allclose(blocks, kernel(ROPE128, reach, given_weights), rtol=0, atol=ROUNDING)


def test_phases_are_in_float64_a_million_positions_out():
    g = kernel_by_blocks(ROPE128, 2**20 - 1)
    places = np.random.default_rng(1).integers(2**19, 2**20, 500)
    np.testing.assert_allclose(g[places], kernel_at(places, ROPE128), atol=1e-10)
    compared = ff.kernel("rope", base=500000, length=2**20, offsets=[1]).entries[0]
    assert compared.beyond_trained == pytest.approx(g[8192:].max(), abs=1e-9)


def kernel_at(places, theta):
    """Turns reduced in extended precision before the cosine."""
    turns = places[:, None].astype(np.longdouble) * theta / (2 * np.pi)
    return np.cos((turns % 1).astype(float) * 2 * np.pi).mean(axis=1)


@given(
    scale=st.floats(0.5, 40), offset=st.integers(0, 29), trained=st.integers(1, 40),
    theta=st.lists(st.floats(1e-3, 3.0), min_size=1, max_size=4),
)  # fmt: skip
def test_margin_and_dilution_are_those_of_the_softmax_written_out(scale, offset, trained, theta):
    length = 30
    g = kernel(np.array(theta), length - 1)
    found = target_dilution(g, rival_sums(g, scale), offset, trained)

    def weight(context):
        """The target's share of the softmax over key - query = -(context - 1) .. 0."""
        deltas = np.arange(1 - context, 1)
        logits = scale * np.cos((deltas[:, None] + offset) * np.array(theta)).mean(axis=1)
        return np.exp(logits[deltas == -offset] - logits.max())[0] / np.exp(logits - logits.max()).sum()

    contexts = range(offset + 1, length + 1)
    weights = {context: weight(context) for context in contexts}
    others = [1 - g[abs(delta + offset)] for delta in range(1 - length, 1) if delta != -offset]
    assert found.margin == pytest.approx(min(others), abs=1e-12)
    assert found.mass == pytest.approx(weights[length])
    reference = max(trained, offset + 1)
    assert found.trained_mass == (pytest.approx(weights[reference]) if reference <= length else None)
    under = {0.5: found.half_length}
    if found.trained_mass is not None:
        under[found.trained_mass / 2] = found.dilution_length
    for mass, at in under.items():
        # A weight that is the threshold to rounding may count on either side.
        assert at is None or weights[at] < mass * (1 + 1e-9)
        assert all(weights[context] >= mass * (1 - 1e-9) for context in contexts if at is None or context < at)


def test_a_weight_of_exactly_one_half_is_not_under_it():
    flat = np.ones(10)
    found = target_dilution(flat, rival_sums(flat, 8.0), 0, 4)
    assert (found.half_length, found.dilution_length) == (3, 9)
    assert (found.margin, found.mass, found.trained_mass) == (0.0, 0.1, 0.25)


def test_both_sides_of_the_target_compete():
    """A kernel that re-aligns at s = 20 only: the rival is before a late target, behind an early one, or absent."""
    g = np.linspace(1, 0, 31)
    g[20] = 0.99
    rivals = rival_sums(g, 1.0)
    at = {offset: target_dilution(g, rivals, offset, 1).rival_at for offset in (0, 15, 30)}
    assert at == {0: 20, 15: 1, 30: 20}


def test_a_kernel_that_returns_is_not_unique_and_one_that_falls_has_no_valley():
    entry = ff.kernel("rope", dim=2, length=1000).entries[0]  # a lone pair of frequency 1
    assert entry.unique  # 710 is 113 turns to 6e-5
    assert entry.realignment_at == 710
    slow = ff.kernel("position-interpolation:factor=100", dim=2, length=300).entries[0]
    assert (slow.valley, slow.realignment, slow.realignment_at) == (None, None, None)
    period = kernel_by_blocks(np.array([np.pi / 10]), 25)
    assert period[1:].max() >= 1 - ROUNDING
    # Slower than float64 can tell from standing still.
    assert not ff.kernel("position-interpolation:factor=1000000,base=1e29", length=64).entries[0].unique


@pytest.mark.parametrize("spec", ["rope:fraction=0.5", "p-rope:share=0.5"])
def test_pairs_that_stand_still_count_with_cosine_one(spec):
    entry = ff.kernel(spec, dim=64, length=64).entries[0]
    whole = 64 if spec.startswith("p-") else 32
    theta = 10000.0 ** (-np.arange(0, whole, 2)[:16] / whole)
    assert entry.breadth == pytest.approx((np.cos(theta).sum() + 16) / 32, abs=1e-13)


def test_weights_are_shares_of_the_pairs():
    weights = [0.0] * 63 + [2.0]
    entry = ff.kernel("rope", dim=128, length=64, weights=weights).entries[0]
    assert entry.breadth == pytest.approx(np.cos(10000 ** (-126 / 128)), abs=1e-13)
    with pytest.raises(FarfieldError, match="64 numbers, one for each pair"):
        ff.kernel("rope", weights=[1.0])


def test_scalings_read_the_length_and_sharpen_as_they_say():
    compared = ff.kernel("yarn:factor=8,dynamic-ntk,llama3,longrope", length=512, trained=64, offsets=[3])
    yarn, dynamic, llama, longrope = compared.entries
    assert yarn.encoding.original_length == dynamic.encoding.original_length == 64
    assert llama.encoding.original_length == 8192
    assert yarn.logit_scale == pytest.approx(8 * (0.1 * np.log(8) + 1) ** 2)
    assert longrope.logit_scale == pytest.approx(8 * (1 + np.log(4) / np.log(64)))
    # Dynamic NTK at L = 512: the factor is 2 * 512/64 - 1 = 15.
    base = 10000 * 15 ** (128 / 126)
    assert dynamic.breadth == pytest.approx(np.cos(base ** (-np.arange(0, 128, 2) / 128)).mean(), abs=1e-13)
    for entry, changes in ((yarn, False), (dynamic, True), (llama, False), (longrope, True)):
        assert entry.changes is changes
        assert (entry.targets[0].trained_mass is None) is changes
    assert ff.kernel("dynamic-ntk", length=64, trained=64, offsets=[3]).entries[0].changes is False


@given(base=st.floats(10, 1e7), factor=st.floats(2, 64))
def test_interpolation_broadens_and_factor_one_changes_nothing(base, factor):
    rope, wide = ff.kernel(f"rope,position-interpolation:factor={factor}", base=base, dim=32, length=256).entries
    assert wide.breadth > rope.breadth
    same = ff.kernel("position-interpolation:factor=1,ntk:factor=1", base=base, dim=32, length=256).entries
    for entry in same:
        assert entry.breadth == pytest.approx(rope.breadth, abs=1e-12)
        assert entry.targets[0].mass == pytest.approx(rope.targets[0].mass)


def test_encodings_are_separated_at_commas_and_settings_stay_with_theirs():
    assert split_encodings("rope, yarn:factor=8, original_length=4,llama3") == [
        "rope", "yarn:factor=8,original_length=4", "llama3",
    ]  # fmt: skip
    assert split_encodings("rope:500000,ntk:2") == ["rope:500000", "ntk:2"]
    assert len(ff.kernel("rope,rope,rope:base=10000", length=8).entries) == 1


def test_the_first_valley_is_the_one_that_kernel_shape_uses():
    g = kernel(ROPE128, 40)
    valley = first_valley(g)
    assert valley == 11
    assert kernel_shape(g).realignment == g[valley:].max()
    assert first_valley(np.array([1.0, 0.5, 0.25])) is first_valley(np.array([1.0])) is None


def test_a_record_is_frozen_and_equal_to_its_like():
    one, other = (ff.kernel("rope", dim=32, length=16) for _ in range(2))
    assert one == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.dim = 3


def test_tables_say_what_they_show_and_a_figure_is_drawn(tmp_path, capsys, monkeypatch):
    figure = tmp_path / "kernels.svg"
    arguments = ["--encoding", "rope,yarn:factor=8,dynamic-ntk", "--base", "10000,500000", "--length", "4096"]
    code, output = said([*arguments, "--trained", "512", "--plot", str(figure)], capsys, monkeypatch)
    assert code == 0
    for words in ("yarn:factor=8,original_length=512", "500000", "0.9779", "±1", "start", "pairs weigh alike", "(*)"):
        assert words in output.out
    assert figure.stat().st_size > 5000
    shortest = said(["--length", "2", "--plot", str(tmp_path / "two.png")], capsys, monkeypatch)
    assert shortest[0] == 0


def test_help_has_examples_and_says_that_trained_heads_weight(capsys, monkeypatch):
    code, output = said(["--help"], capsys, monkeypatch)
    assert code == 0
    for words in ("farfield kernel", "Examples", "trained head weights", "1,64 if left out"):
        assert words in " ".join(output.out.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dim", "7"], ["d must be even: got d = 7"]),
        (["--dim", "0"], ["dim = 0 must be a whole number from 2"]),
        (["--base", "1"], ["rope:base=1", "between 1 and 1e+30, both excluded"]),
        (["--base", "nan"], ["base=nan"]),
        (["--base", "10000;5"], ["--base '10000;5'", "separated by commas"]),
        (["--base", ","], ["--base ','", "separated by commas"]),
        (["--base", "10000,,5"], ["--base '10000,,5'", "separated by commas"]),
        (["--length", "1"], ["length = 1 must be a whole number from 2"]),
        (["--length", "99999999999"], ["length", "16777216"]),
        (["--encoding", "alibi"], ["alibi does not rotate", "farfield show alibi"]),
        (["--encoding", "xpos"], ["xpos does more than rotate", "yarn"]),
        (["--encoding", "rop"], ["did you mean 'rope'"]),
        (["--encoding", ""], ["no encoding is given"]),
        (["--encoding", "rope:500000", "--base", "10000"], ["base is set twice: in 'rope:500000'"]),
        (
            ["--encoding", "rope,ntk:factor=2,base=3", "--base", "10000"],
            ["base is set twice: in 'ntk:factor=2,base=3'"],
        ),
        (["--encoding", "ntk", "--dim", "2"], ["d must be at least 4"]),
        (["--encoding", "longrope:short_factor=1;2"], ["short_factor has 2 numbers for the 64 pairs"]),
        (["--offset", "64", "--length", "64"], ["offset 64 is not in a context of 64"]),
        (["--offset", "-1"], ["offset -1"]),
        (["--offset", ","], ["--offset ','", "separated by commas"]),
        (["--offset", "1,,2"], ["--offset '1,,2'", "separated by commas"]),
        (["--logit-scale", "0"], ["logit_scale = 0"]),
        (["--logit-scale", "nan"], ["logit_scale = nan"]),
        (["--trained", "0"], ["trained = 0"]),
        (["--plot", "kernel.xyz"], [".png"]),
        (["--bases", "3"], ["--bases"]),
        (["--base", ",".join(map(str, range(2, 60)))], ["58 kernels are more than 49"]),
    ],
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(arguments, words, capsys, monkeypatch):
    code, output = said(arguments, capsys, monkeypatch)
    assert code == 2
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    for word in words:
        assert word in output.err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoding": None}, "encoding = None must be written as in 'rope:base=500000'"),
        ({"encoding": 3}, "encoding = 3 must be written as in"),
        ({"encoding": ["rope", 3]}, "encoding = 3 must be written as in"),
        ({"encoding": []}, "no encoding is given"),
        ({"base": []}, "no base is given"),
        ({"base": "1,2"}, "rope:base='1,2' is not a number"),
        ({"base": 10**400}, "is not a number"),
        ({"logit_scale": "8"}, "logit_scale = '8' must be a number above 0 and at most 1e\\+06"),
        ({"logit_scale": None}, "logit_scale = None must be"),
        ({"logit_scale": [8]}, r"logit_scale = \[8\] must be"),
        ({"logit_scale": 8 + 0j}, r"logit_scale = \(8\+0j\) must be"),
        ({"logit_scale": 10**400}, "logit_scale = 10+ must be"),
        ({"logit_scale": np.array([8.0, 9.0])}, "logit_scale = array.* must be"),
        ({"offsets": 1}, r"offsets = 1 must be a row of whole numbers, for example \[1, 64\]"),
        ({"offsets": []}, "no target offset is given"),
        ({"offsets": "12"}, "offset '1' must be a whole number"),
        ({"offsets": [True]}, "offset True must be a whole number"),
        ({"offsets": [[1]]}, r"offset \[1\] must be a whole number"),
        ({"offsets": [1.0]}, "offset 1.0 must be a whole number"),
        ({"dim": True}, "dim = True must be a whole number from 2"),
        ({"length": 8.0}, "length = 8.0 must be a whole number from 2"),
        ({"trained": True}, "trained = True must be a whole number from 1"),
        ({"weights": "x"}, "weights must be 4 numbers"),
        ({"weights": ["a"] * 4}, "weights must be 4 numbers"),
        ({"weights": [1j] * 4}, "weights must be 4 numbers"),
        ({"weights": np.full(4, 1j)}, "weights must be 4 numbers"),
        ({"weights": [[1], [1, 2], 3, 4]}, "weights must be 4 numbers"),
        ({"weights": [1, 1, 1, -1]}, "weights must be 4 numbers"),
        ({"weights": [1, 1, 1, np.inf]}, "weights must be 4 numbers"),
        ({"weights": [0] * 4}, "not all 0"),
    ],
)
def test_a_mistake_in_python_is_a_farfield_error(settings, words):
    with pytest.raises(FarfieldError, match=words):
        ff.kernel(**{"dim": 8, "length": 8, **settings})


def test_numbers_of_any_kind_and_size_are_taken_for_what_they_are():
    plain = ff.kernel("rope", base=234, dim=8, length=8, trained=4, offsets=[1, 2], weights=[1, 1, 1, 1])
    assert [entry.encoding.base for entry in plain.entries] == [234.0]
    whole = {"dim": np.int32(8), "length": np.int64(8), "trained": np.int64(4), "offsets": np.array([1, 2])}
    assert ff.kernel("rope", base="234", weights=[1e308] * 4, logit_scale=np.float32(8), **whole) == plain
    assert plain.weights == (0.25,) * 4
    json.dumps(ff.kernel("rope", **whole).to_json())


def test_a_figure_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("farfield.analysis.kernels.kernel", lambda *_, **__: pytest.fail("computed first"))
    taken = tmp_path / "taken.png"
    taken.mkdir()
    for place, words in ((taken, "Is a directory"), ("/proc/x.png", "/proc/x.png: "), ("/sys/x.png", "/sys/x.png: ")):
        code, output = said(["--plot", str(place)], capsys, monkeypatch)
        assert code == 2
        assert words in output.err
        assert "choose another place" in output.err


def test_a_path_for_a_figure_is_looked_at_and_left_as_it_was(tmp_path):
    (tmp_path / "old.png").write_text("old")
    for name in ("old.png", "new.png"):
        check_path(tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old.png", "old")]
