"""The order of a step: two passes over one set of fields, or one pass from one set into another.

Both leave the same numbers, to rounding. One pass moves 21 numbers a point instead of 30, but takes nine more arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lithowave.solvers.finite_difference.arguments import FIELDS, STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.passes import pass_box

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

Fields = dict[str, Any]
Box = Sequence[tuple[int, int]]


def new_fields(solver: FiniteDifferenceSolver) -> Fields:
    """Nine arrays of zeros."""
    return {name: solver.backend.field(solver.plan.padded_shape(), solver.plan.halo) for name in FIELDS}


class TwoPasses:
    """Stress, then velocity, in place."""

    def __init__(self, solver: FiniteDifferenceSolver) -> None:
        self.solver, self.fields = solver, new_fields(solver)
        self._step = solver.backend.repeated(self._launch)

    def advance(self) -> None:
        """One step."""
        self._step()

    def restored(self) -> None:
        """The fields have been assigned anew."""

    def _launch(self) -> None:
        solver = self.solver
        solver.update_stress()
        solver.inject(solver.moments, self.fields)
        solver.apply_free_surface(self.fields)
        solver.update_velocity()
        solver.inject(solver.forces, self.fields)
        solver.apply_rigid_faces(self.fields)
        solver.count_step()


class OnePassScheme:
    """Inside a box, velocity and the stress after it in one pass from one set of fields into the other.

    With v at t_n in set `old`, the stresses of t_n + dt / 2 are there already inside the box: the pass before made
    them. Around the box they come from those of t_n - dt / 2, which are still in the other set. At the end of a step
    the new velocities are in one set and the stresses half a step before them in the other, so that records, snapshots
    and checkpoints see what they see with two passes.
    """

    def __init__(self, solver: FiniteDifferenceSolver, box: Box) -> None:
        self.solver, self.box = solver, box
        self._sets = (new_fields(solver), new_fields(solver))
        self._turn = 0
        self._ahead = False  # whether the stresses inside the box are half a step ahead of the velocities
        self._steps = tuple(
            solver.backend.repeated(lambda turn=turn: self._launch(self._sets[turn], self._sets[1 - turn]))
            for turn in range(2)
        )
        self._views = tuple(_view(self._sets[turn], self._sets[1 - turn]) for turn in range(2))

    @property
    def fields(self) -> Fields:
        """Velocities and the stresses half a step before them."""
        return self._views[self._turn]

    def advance(self) -> None:
        """One step."""
        if not self._ahead:
            self._part("update_stress", self.fields, self._sets[self._turn], "inside")
            self._ahead = True
        self._steps[self._turn]()
        self._turn = 1 - self._turn

    def restored(self) -> None:
        """The fields have been assigned anew."""
        self._ahead = False

    def _launch(self, old: Fields, new: Fields) -> None:
        solver = self.solver
        self._part("update_stress", _view(old, new), old, "around")
        solver.close_stress(old)
        solver.inject(solver.moments, old)
        solver.apply_free_surface(old)
        self._part("update_velocity", old, new, "around")
        material = {"density": solver.density, "lam": solver.lam, "compliance": solver.compliance}
        solver.kernels.one_pass(old, new, material, solver.ratio, solver.coefficients, self.box)
        after = _view(new, old)
        solver.close_velocity(after)
        solver.inject(solver.forces, after)
        solver.apply_rigid_faces(after)
        solver.count_step()

    def _part(self, kernel: str, source: Fields, target: Fields, which: str) -> None:
        """A half of a step inside or around the box, from one set into the other."""
        stress = kernel == "update_stress"
        arguments = self.solver.stress_arguments(source) if stress else self.solver.velocity_arguments(source)
        outputs = {name: target[name] for name in (STRESSES if stress else VELOCITIES)}
        getattr(self.solver.kernels, kernel).part(arguments, outputs, which, self.box)


def _view(velocities: Fields, stresses: Fields) -> Fields:
    return {name: (velocities if name in VELOCITIES else stresses)[name] for name in FIELDS}


def make_scheme(solver: FiniteDifferenceSolver, forces: Sequence[Any]) -> TwoPasses | OnePassScheme:
    """The scheme that the plan says; where it says auto, that of `pass_box`."""
    box, _ = pass_box(solver.plan, solver.backend, forces)
    return TwoPasses(solver) if box is None else OnePassScheme(solver, box)
