"""The order of a step: two passes over one set of fields, or one pass from one set into another.

Both leave the same numbers, to rounding. One pass moves 21 numbers a point instead of 30, but takes nine more arrays.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lithowave.solvers.finite_difference.fields import FIELDS, STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.passes import pass_box
from lithowave.solvers.finite_difference.regions import box_table
from lithowave.solvers.finite_difference.tiles import around
from lithowave.weak import weak_call

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

Fields = dict[str, Any]
Box = Sequence[tuple[int, int]]


def new_fields(solver: FiniteDifferenceSolver) -> Fields:
    """Nine arrays of zeros."""
    return {name: solver.backend.field(solver.plan.padded_shape(), solver.plan.halo) for name in FIELDS}


class TwoPasses:
    """Stress, then velocity, in place.

    Where ranks exchange messages, the points that others need come first, and the rest is done while they travel.

    turn : which of several sets of fields holds the velocities; here there is one.
    """

    turn = 0

    def __init__(self, solver: FiniteDifferenceSolver) -> None:
        solver = weakref.proxy(solver)  # which has this scheme
        self.fields = new_fields(solver)
        self._stages = [solver.backend.repeated(stage) for stage in self._stages_of(solver)]
        self._message = solver.plan.division and solver.field_message()

    def _stages_of(self, solver: FiniteDifferenceSolver) -> list[Callable[[], None]]:
        """What is done before a message sets out, and while it travels."""
        f, parts = self.fields, solver.parts

        def whole() -> None:
            solver.step_stress(f, parts.stress)
            solver.step_velocity(f, parts.velocity)
            solver.count_step()

        def until_velocities_are_sent() -> None:
            solver.step_stress(f, parts.stress)
            solver.step_velocity(f, parts.outer_velocity)

        def rest() -> None:
            solver.step_velocity(f, parts.inner_velocity)
            solver.count_step()

        return [whole] if solver.plan.division is None else [until_velocities_are_sent, rest]

    def advance(self) -> None:
        """One step."""
        first, *others = self._stages
        first()
        if self._message:
            self._message.start(self.fields)
            others[0]()
            self._message.finish(self.fields)

    def restored(self) -> None:
        """The fields have been assigned anew."""


class OnePassScheme:
    """Inside a box, velocity and the stress after it in one pass from one set of fields into the other.

    With v at t_n in set `old`, the stresses of t_n + dt / 2 are there already inside the box: the pass before made
    them. Around the box they come from those of t_n - dt / 2, which are still in the other set. At the end of a step
    the new velocities are in one set and the stresses half a step before them in the other, so that records, snapshots
    and checkpoints see what they see with two passes. What other ranks need lies around the box, and travels while the
    inside is done.
    """

    def __init__(self, solver: FiniteDifferenceSolver, box: Box) -> None:
        self.solver, self.box = weakref.proxy(solver), box  # the solver has this scheme
        self._sets = (new_fields(solver), new_fields(solver))
        self.turn = 0  # which of the two views of the fields is the present one
        self._ahead = False  # whether the stresses inside the box are half a step ahead of the velocities
        parts, whole = solver.parts, [(0, count) for count in solver.grid.shape]
        self._stress = replace(parts.stress, boxes=box_table(around(box, whole)))
        self._inside = box_table([box])
        velocities = whole if solver.plan.division is None else solver.plan.division.velocities()
        self._velocity = replace(parts.velocity, boxes=box_table(around(box, velocities)))
        turns = [(self._sets[turn], self._sets[1 - turn]) for turn in range(2)]
        repeated = solver.backend.repeated
        self._message = solver.plan.division and solver.field_message()
        if self._message:
            self._around = [repeated(weak_call(self._launch_around, *sets)) for sets in turns]
            self._steps = [repeated(weak_call(self._launch_inside, *sets)) for sets in turns]
        else:
            self._steps = [repeated(weak_call(self._launch, *sets)) for sets in turns]
        self._views = tuple(_view(*sets) for sets in turns)

    @property
    def fields(self) -> Fields:
        """Velocities and the stresses half a step before them."""
        return self._views[self.turn]

    def advance(self) -> None:
        """One step."""
        if not self._ahead:
            stresses = {name: self._sets[self.turn][name] for name in STRESSES}
            self.solver.kernels.update_stress.into(stresses, *self.solver.stress_arguments(self.fields, self._inside))
            self._ahead = True
        turn, self.turn = self.turn, 1 - self.turn
        if self._message:
            self._around[turn]()
            self._message.start(self.fields)
            self._steps[turn]()
            self._message.finish(self.fields)
        else:
            self._steps[turn]()

    def restored(self) -> None:
        """The fields have been assigned anew."""
        self._ahead = False

    def _launch(self, old: Fields, new: Fields) -> None:
        self._launch_around(old, new)
        self._launch_inside(old, new)

    def _launch_around(self, old: Fields, new: Fields) -> None:
        """Around the box; no layer, face or force reaches into it."""
        solver, kernels = self.solver, self.solver.kernels
        stresses, velocities = {name: old[name] for name in STRESSES}, {name: new[name] for name in VELOCITIES}
        kernels.update_stress.into(stresses, *solver.stress_arguments(_view(old, new), self._stress.boxes))
        solver.finish_stress(old, self._stress)
        kernels.update_velocity.into(velocities, *solver.velocity_arguments(old, self._velocity.boxes))
        solver.finish_velocity(_view(new, old), self._velocity)

    def _launch_inside(self, old: Fields, new: Fields) -> None:
        solver = self.solver
        solver.kernels.one_pass(old, new, solver.material, solver.law, solver.ratio, solver.coefficients, self.box)
        solver.count_step()


def _view(velocities: Fields, stresses: Fields) -> Fields:
    return {name: (velocities if name in VELOCITIES else stresses)[name] for name in FIELDS}


def make_scheme(solver: FiniteDifferenceSolver, forces: Sequence[Any]) -> TwoPasses | OnePassScheme:
    """The scheme that the plan says; where it says auto, that of `pass_box`."""
    box, _ = pass_box(solver.plan, solver.backend, forces)
    return TwoPasses(solver) if box is None else OnePassScheme(solver, box)
