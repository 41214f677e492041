// The grid on which the membrane is computed; its size is known when it is compiled.
#pragma once

#include <array>
#include <cstddef>

//ZEN$ SUBSTITUTE float = { float, double } AS precision
using real = float;

constexpr std::size_t cells = 256;

class Field {
public:
    real &operator()(std::size_t i, std::size_t j) { return values_[i * cells + j]; }
    real operator()(std::size_t i, std::size_t j) const { return values_[i * cells + j]; }

    real laplacian(std::size_t i, std::size_t j) const
    {
        const Field &u = *this;
        return u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4 * u(i, j);
    }

private:
    std::array<real, cells * cells> values_{};
};
