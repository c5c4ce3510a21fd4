"""Hooke's law at a point, times the quadrature weight over the Jacobian: from the gradient of u to the stresses."""

from __future__ import annotations

from collections.abc import Callable

from lithowave.backends.loops import U, row


def make_isotropic_law(step: int) -> Callable:
    """Return the law for moduli whose components are `step` entries apart."""
    S = U(step)

    @row
    def isotropic_stress(xx, xy, xz, yx, yy, yz, zx, zy, zz, scale, moduli, at):
        """Return sigma = scale (lambda tr(e) I + 2 mu e); moduli: lambda, mu at `at` and `at` + `step`."""
        lam, mu = scale * moduli[at], scale * moduli[at + S]
        trace, twice = lam * (xx + yy + zz), mu + mu
        return (
            trace + twice * xx, mu * (xy + yx), mu * (xz + zx), trace + twice * yy, mu * (yz + zy), trace + twice * zz
        )  # fmt: skip

    return isotropic_stress


def make_anisotropic_law(step: int) -> Callable:
    """Return the law for moduli whose components are `step` entries apart."""
    S = tuple(U(number * step) for number in range(21))

    @row
    def anisotropic_stress(xx, xy, xz, yx, yy, yz, zx, zy, zz, scale, moduli, at):
        """Return sigma = scale C : e; moduli: upper triangle of Voigt's matrix by rows (xx, yy, zz, yz, xz, xy)."""
        e1, e2, e3 = scale * xx, scale * yy, scale * zz
        e4, e5, e6 = scale * (yz + zy), scale * (xz + zx), scale * (xy + yx)
        c = moduli
        s1 = c[at] * e1 + c[at + S[1]] * e2 + c[at + S[2]] * e3
        s1 += c[at + S[3]] * e4 + c[at + S[4]] * e5 + c[at + S[5]] * e6
        s2 = c[at + S[1]] * e1 + c[at + S[6]] * e2 + c[at + S[7]] * e3
        s2 += c[at + S[8]] * e4 + c[at + S[9]] * e5 + c[at + S[10]] * e6
        s3 = c[at + S[2]] * e1 + c[at + S[7]] * e2 + c[at + S[11]] * e3
        s3 += c[at + S[12]] * e4 + c[at + S[13]] * e5 + c[at + S[14]] * e6
        s4 = c[at + S[3]] * e1 + c[at + S[8]] * e2 + c[at + S[12]] * e3
        s4 += c[at + S[15]] * e4 + c[at + S[16]] * e5 + c[at + S[17]] * e6
        s5 = c[at + S[4]] * e1 + c[at + S[9]] * e2 + c[at + S[13]] * e3
        s5 += c[at + S[16]] * e4 + c[at + S[18]] * e5 + c[at + S[19]] * e6
        s6 = c[at + S[5]] * e1 + c[at + S[10]] * e2 + c[at + S[14]] * e3
        s6 += c[at + S[17]] * e4 + c[at + S[19]] * e5 + c[at + S[20]] * e6
        return s1, s6, s5, s2, s4, s3

    return anisotropic_stress
