"""Whether two versions of farfield give the same numbers, bit for bit.

    python benchmarks/same_numbers.py --write before.json      # with the one version
    python benchmarks/same_numbers.py --against before.json    # with the other: exit code 1 where anything differs

Trains small cells on every path (lookup, dense, transformer, positional) and records the identity, a hash of every
weight and every measurement of each. Only public names are used, so that a change of the inside does not matter.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import farfield as ff

SMALL = {"seeds": 2, "lengths": (4, 8), "test": (6, 8, 12, 24), "steps": 60, "batch": 16, "sequences": 64}
DECODER = "transformer:layers={},heads=2,width=16"
CELLS: dict[str, dict[str, Any]] = {
    "lookup": {"encoding": "rope", "task": "offset:2", "snapshots": (0, 30)},
    "lookup, two heads": {"encoding": "fire", "task": "offset:1", "model": "head:heads=2"},
    "lookup, a bias with decay": {"encoding": "t5", "task": "root", "weight_decay": 0.01},
    "lookup, another normalizer": {"encoding": "alibi:slope=0.5", "task": "mode", "normalizer": "sparsemax"},
    "lookup, drawn positions": {"encoding": "learned", "task": "offset:1", "positions": "random-subset:64"},
    "lookup, a scaled encoding": {"encoding": "yarn:factor=4", "task": "offset:3"},
    "dense": {"encoding": "rope", "task": "offset:1", "path": "dense"},
    "dense, contextual": {"encoding": "cope", "task": "marker"},
    "transformer": {"encoding": "rope", "task": "induction", "model": DECODER.format(2)},
    "transformer, a bias": {
        "encoding": "kerple-log",
        "task": "offset:1",
        "model": "transformer:layers=1,heads=2,width=16",
    },
    "positional": {"encoding": "t5", "task": "position:2", "model": "positional"},
    "positional, added": {"encoding": "sinusoidal", "task": "offset:1", "model": "positional"},
}


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="file to record into")
    parser.add_argument("--against", type=Path, help="file to compare with")
    options = parser.parse_args()
    recorded = {name: record(settings) for name, settings in CELLS.items()}
    if options.write:
        options.write.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
    if options.against:
        earlier = json.loads(options.against.read_text(encoding="utf-8"))
        differing = [name for name in {**earlier, **recorded} if not same(name, earlier.get(name), recorded.get(name))]
        sys.exit(f"{len(differing)} of {len(CELLS)} differ" if differing else 0)


def record(settings: dict[str, Any]) -> dict[str, Any]:
    """Identities, hashes of weights and all measurements of one setting's seeds."""
    result = ff.train(**(SMALL | settings))
    measured = json.loads(json.dumps(result.to_json()))
    for changing in ("seconds", "versions"):
        del measured[changing]
    return {
        "identities": measured.pop("identities"),
        "weights": [hashes(cell.parameters) | {"loss": digest(cell.losses)} for cell in result.cells],
        "measurements": [sorted(map(repr, map(tuple, cell.measurements()))) for cell in result.cells],
        "summary": measured,
    }


def hashes(parameters: Any) -> dict[str, str]:
    """A hash of the bytes of every array of a tree, in the tree's order."""
    return {str(number): digest(leaf) for number, leaf in enumerate(jax.tree.leaves(parameters))}


def digest(array: Any) -> str:
    """A hash of an array's shape, type and bytes."""
    values = np.ascontiguousarray(array)
    return hashlib.sha256(f"{values.shape} {values.dtype}".encode() + values.tobytes()).hexdigest()[:16]


def same(name: str, earlier: Any, later: Any) -> bool:
    """Whether one setting's records agree; prints which part does not."""
    if earlier is None or later is None:
        print(f"{name}: only in one of the two")
        return False
    parts = [part for part in later if earlier[part] != later[part]]
    print(f"{name}: {'differs in ' + ', '.join(parts) if parts else 'the same bits'}")
    return not parts


if __name__ == "__main__":
    main()
