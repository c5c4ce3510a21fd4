#pragma once

struct Pair {
    int first;
    double second;
};
