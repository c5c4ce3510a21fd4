"""Order of a step: two passes over one set of fields, or one pass from one set into another.

Both give the same values up to round-off. One pass moves 21 values per point instead of 30, but needs nine more arrays;
with attenuation 34 instead of 43, and 15 more arrays. Memory variables belong to the stresses of a set of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lithowave.solvers.finite_difference.exchange import FieldMessage
from lithowave.solvers.finite_difference.fields import VELOCITIES
from lithowave.solvers.finite_difference.plan import pass_box
from lithowave.solvers.finite_difference.regions import Region, box_table
from lithowave.solvers.finite_difference.step import Fields, Step
from lithowave.solvers.finite_difference.sweep import Sweep, plan_sweep
from lithowave.solvers.finite_difference.tiles import around

Box = Sequence[tuple[int, int]]


class TwoPasses:
    """Stress, then velocity, in place.

    If ranks exchange messages, the points that others need are updated first, the rest while the messages are in
    flight.

    turn : index of the set of fields that holds the velocities; always 0 here.
    """

    turn = 0

    def __init__(self, step: Step, message: FieldMessage | None) -> None:
        self.fields = step.new_fields()
        self._stages = [step.backend.capture_graph(stage) for stage in self._stages_of(step)]
        self._message = message

    def _stages_of(self, step: Step) -> list[Callable[[], None]]:
        """Return the work before a message is sent, and the work while it is in flight."""
        f, regions = self.fields, step.regions

        def all_at_once() -> None:
            step.advance_stress(f, regions.stress)
            step.advance_velocity(f, regions.velocity)
            step.count_step()

        def until_velocities_are_sent() -> None:
            step.advance_stress(f, regions.stress)
            step.advance_velocity(f, regions.outer_velocity)

        def rest() -> None:
            step.advance_velocity(f, regions.inner_velocity)
            step.count_step()

        return [all_at_once] if step.plan.subdomain is None else [until_velocities_are_sent, rest]

    def advance(self) -> None:
        """Advance one step."""
        first, *others = self._stages
        first()
        if self._message:
            self._message.start(self.fields)
            others[0]()
            self._message.finish(self.fields)

    def restored(self) -> None:
        """Note that the fields have been assigned from a checkpoint."""


class OneSweep:
    """Stress, and velocity behind it, in place in one sweep over memory, with the same operations as two passes."""

    turn = 0

    def __init__(self, step: Step, sweep: Sweep) -> None:
        self.fields, self._step, self._sweep = step.new_fields(), step, sweep

    def advance(self) -> None:
        """Advance one step."""
        self._step.advance_both(self.fields, self._sweep)
        self._step.count_step()

    def restored(self) -> None:
        """Note that the fields have been assigned from a checkpoint."""


class OnePassScheme:
    """Velocity and then stress inside a box in one pass from one set of fields into the other.

    With v at t_n in set `old`, the stresses of t_n + dt / 2 are already there inside the box: the previous pass
    computed them. Around the box they are computed from those of t_n - dt / 2, which are still in the other set. At the
    end of a step the new velocities are in one set and the stresses half a step before them in the other, so that
    records, snapshots and checkpoints read the same values as with two passes. The points that other ranks need are
    around the box, and their messages are in flight while the inside is updated.
    """

    def __init__(self, step: Step, message: FieldMessage | None, box: Box) -> None:
        self._step, self._message = step, message
        self._sets = (step.new_fields(), step.new_fields())
        self.turn = 0  # index of the present view of the fields
        self._ahead = False  # True if the stresses inside the box are half a step ahead of the velocities
        regions, shape = step.regions, [(0, count) for count in step.plan.grid.shape]
        stress = replace(regions.stress, boxes=box_table(around(box, shape)))
        self._inside = box_table([box])
        velocities = shape if step.plan.subdomain is None else step.plan.subdomain.velocities()
        velocity = replace(regions.velocity, boxes=box_table(around(box, velocities)))
        turns = [(self._sets[turn], self._sets[1 - turn]) for turn in range(2)]
        capture = step.backend.capture_graph
        if message:
            self._around = [capture(partial(advance_around, step, stress, velocity, *sets)) for sets in turns]
            self._steps = [capture(partial(advance_inside, step, box, *sets)) for sets in turns]
        else:
            self._steps = [capture(partial(advance_all, step, stress, velocity, box, *sets)) for sets in turns]
        self._views = tuple(_view(*sets) for sets in turns)

    @property
    def fields(self) -> Fields:
        """Velocities and the stresses half a step before them."""
        return self._views[self.turn]

    def advance(self) -> None:
        """Advance one step."""
        if not self._ahead:
            stresses = {name: self._sets[self.turn][name] for name in self._step.plan.law_fields.stresses}
            self._step.kernels.update_stress.into(stresses, *self._step.stress_arguments(self.fields, self._inside))
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
        """Note that the fields have been assigned from a checkpoint."""
        self._ahead = False


def advance_all(step: Step, stress: Region, velocity: Region, box: Box, old: Fields, new: Fields) -> None:
    """Advance all points."""
    advance_around(step, stress, velocity, old, new)
    advance_inside(step, box, old, new)


def advance_around(step: Step, stress: Region, velocity: Region, old: Fields, new: Fields) -> None:
    """Advance the points around the box; no layer, face or force acts inside it."""
    stresses = {name: old[name] for name in step.plan.law_fields.stresses}
    velocities = {name: new[name] for name in VELOCITIES}
    step.kernels.update_stress.into(stresses, *step.stress_arguments(_view(old, new), stress.boxes))
    step.finish_stress(old, stress)
    step.kernels.update_velocity.into(velocities, *step.velocity_arguments(old, velocity.boxes))
    step.finish_velocity(_view(new, old), velocity)


def advance_inside(step: Step, box: Box, old: Fields, new: Fields) -> None:
    """Advance the points of the box, in one pass over memory."""
    step.kernels.one_pass(old, new, step.material.arrays, step.law(old), step.ratio, step.coefficients, box)
    step.count_step()


def _view(velocities: Fields, stresses: Fields) -> Fields:
    return {name: (velocities if name in VELOCITIES else stresses)[name] for name in stresses}


def make_scheme(
    step: Step, message: FieldMessage | None, forces: Sequence[Any]
) -> TwoPasses | OneSweep | OnePassScheme:
    """Return the scheme of the plan. forces : positions of the forces, m."""
    box, _ = pass_box(step.plan, step.backend, forces)
    if box is not None:
        return OnePassScheme(step, message, box)
    if message is None and hasattr(step.kernels, "update_both"):
        sweep = plan_sweep(step.plan, step.regions.stress.sources.bricks(), step.backend.threads)
        if sweep is not None:
            return OneSweep(step, sweep)
    return TwoPasses(step, message)
