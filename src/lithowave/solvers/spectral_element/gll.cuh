// Gauss-Lobatto-Legendre points and weights of degree DEGREE and the derivatives of their Lagrange polynomials,
// computed at compile time: for a constant index the value is part of the instruction.
#pragma once

typedef REAL real;

constexpr int N = DEGREE + 1;  // points along an axis of an element

constexpr double legendre(double x) {
    double before = 1, value = x;
    for (int k = 2; k <= DEGREE; k++) {
        const double next = ((2 * k - 1) * x * value - (k - 1) * before) / k;
        before = value;
        value = next;
    }
    return value;
}

constexpr double legendre_before(double x) {  // P of degree DEGREE - 1
    double before = 1, value = x;
    for (int k = 2; k <= DEGREE; k++) {
        const double next = ((2 * k - 1) * x * value - (k - 1) * before) / k;
        before = value;
        value = next;
    }
    return before;
}

constexpr double cosine(double x) {  // Taylor's series, for x in [0, pi]
    double term = 1, sum = 1;
    for (int k = 1; k < 24; k++) {
        term *= -x * x / ((2 * k - 1) * (2 * k));
        sum += term;
    }
    return sum;
}

// Zeros of (1 - x^2) P': x <- x - (x P_N - P_(N-1)) / ((N + 1) P_N) from the Chebyshev points.
constexpr double gll_point(int index) {
    if (2 * index == DEGREE) return 0;
    double x = -cosine(3.14159265358979323846 * index / DEGREE);
    for (int turn = 0; turn < 12; turn++) x -= (x * legendre(x) - legendre_before(x)) / ((DEGREE + 1) * legendre(x));
    return x;
}

struct GllTables {
    real point[N], weight[N], derivative[N][N];  // derivative[i][l] = l_l'(x_i)

    constexpr GllTables() : point(), weight(), derivative() {
        double x[N] = {}, p[N] = {};
        for (int i = 0; i < N; i++) {
            x[i] = i == 0 ? -1 : i == DEGREE ? 1 : gll_point(i);
            p[i] = legendre(x[i]);
            point[i] = static_cast<real>(x[i]);
            weight[i] = static_cast<real>(2 / (DEGREE * (DEGREE + 1) * p[i] * p[i]));
        }
        for (int i = 0; i < N; i++)
            for (int l = 0; l < N; l++)
                derivative[i][l] = static_cast<real>(
                    i != l ? p[i] / (p[l] * (x[i] - x[l])) : i == 0 ? -0.25 * DEGREE * (DEGREE + 1)
                    : i == DEGREE ? 0.25 * DEGREE * (DEGREE + 1) : 0);
    }
};

__device__ constexpr GllTables GLL;
