"""Linear advection on a ring: u_t + u_x = 0, in finite volumes.

    python3 advect.py input.json        reads the deck, writes result.json
"""

import json
import sys


def minmod(a, b):
    if a * b <= 0:
        return 0.0
    return a if abs(a) < abs(b) else b


SLOPES = {
    "upwind": lambda left, right: 0.0,
    "lax_wendroff": lambda left, right: right,
    "minmod": minmod,
}


def step(u, courant, slope):
    """One step of length courant * dx; what leaves a cell on the right enters the next."""
    n = len(u)
    flux = [
        u[i] + 0.5 * (1 - courant) * slope(u[i] - u[i - 1], u[(i + 1) % n] - u[i])
        for i in range(n)
    ]
    return [u[i] - courant * (flux[i] - flux[i - 1]) for i in range(n)]


def main(path):
    with open(path, encoding="utf-8") as file:
        deck = json.load(file)
    n = deck["grid"]["cells"]
    courant = deck["time"]["courant"]
    steps = round(deck["time"]["rounds"] * n / courant)
    start = [1.0 if n // 4 <= i < n // 2 else 0.0 for i in range(n)]

    u = start
    for _ in range(steps):
        u = step(u, courant, SLOPES[deck["scheme"]])

    dx = deck["grid"]["length"] / n
    result = {
        "steps": steps,
        "mass": sum(u) * dx,
        "error": {
            "l1": sum(abs(a - b) for a, b in zip(u, start)) * dx,
            "overshoot": max(max(u) - 1.0, -min(u), 0.0),
        },
    }
    with open("result.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
    print(f"{deck['scheme']}: {steps} steps, L1 error {result['error']['l1']:.5f}")


if __name__ == "__main__":
    main(sys.argv[1])
