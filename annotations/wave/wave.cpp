// The vibrating membrane: u_tt = u_xx + u_yy by the leapfrog, fixed at its rim.
#include "field.hpp"

#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>

static std::map<std::string, std::string> read(const char *path)
{
    std::map<std::string, std::string> settings;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string name, equals, value;
        if (words >> name >> equals >> value)
            settings[name] = value;
    }
    return settings;
}

// The energy that the leapfrog conserves exactly, were it not for rounding.
static double energy(const Field &u, const Field &v, double c2)
{
    double kinetic = 0, potential = 0;
    for (std::size_t i = 1; i + 1 < cells; i++)
        for (std::size_t j = 1; j + 1 < cells; j++) {
            kinetic += std::pow(double(v(i, j)) - u(i, j), 2);
            potential -= c2 * u(i, j) * v.laplacian(i, j);
        }
    return kinetic + potential;
}

int main(int argc, char **argv)
{
    auto settings = read(argc > 1 ? argv[1] : "wave.cfg");
    const char *compiled = std::is_same_v<real, float> ? "float" : "double";
    if (std::stoul(settings["cells"]) != cells || settings["precision"] != compiled) {
        std::cerr << "wave was compiled for " << cells << " cells of " << compiled << "\n";
        return 1;
    }
    const int steps = std::stoi(settings["steps"]);
    const double courant = std::stod(settings["courant"]);
    const real c2 = real(courant * courant);

    auto past = std::make_unique<Field>(), now = std::make_unique<Field>();
    for (std::size_t i = 1; i + 1 < cells; i++)
        for (std::size_t j = 1; j + 1 < cells; j++) {
            double x = (i - 0.5 * cells) / cells, y = (j - 0.5 * cells) / cells;
            (*past)(i, j) = (*now)(i, j) = real(std::exp(-80 * (x * x + y * y)));
        }
    const double before = energy(*past, *now, c2);

    const auto start = std::chrono::steady_clock::now();
    for (int s = 0; s < steps; s++) {
        for (std::size_t i = 1; i + 1 < cells; i++)
            for (std::size_t j = 1; j + 1 < cells; j++)
                (*past)(i, j) = 2 * (*now)(i, j) - (*past)(i, j) + c2 * now->laplacian(i, j);
        std::swap(past, now);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;

    std::cout << "rate " << 1e-6 * steps * cells * cells / time.count() << " Mcell/s\n"
              << "energy drift " << std::abs(energy(*past, *now, c2) / before - 1) << "\n"
              << "bytes " << 2 * sizeof(Field) << "\n";
}
