"""Foxes and rabbits after Lotka and Volterra, by the classical Runge-Kutta method.

The quantity V = delta x - gamma ln x + beta y - alpha ln y is conserved by the equations; how
far it drifts tells how good the step was.
"""
#ZEN$ RUN    "python3 predators.py"
#ZEN$ METRIC drift FROM stdout REGEX "drift of V: (\S+)"
#ZEN$ METRIC steps FROM stdout REGEX "steps: (\d+)"
#ZEN$ METRIC effort := steps * 4
#ZEN$ CONSTRAINT VALUE alpha > beta
#ZEN$ OBJECTIVE MINIMIZE drift, MINIMIZE steps
import json
import os
from math import log

alpha = 1.1  # rabbits are born
beta = 0.4  # and eaten,
gamma = 0.4  # foxes starve
delta = 0.1  # and breed
h = 0.01  # years
#ZEN$ ASSIGN alpha = { 0.5:1.5:0.25 } UNIT "1/a"
#ZEN$ ASSIGN beta = { 0.4, 0.5, 0.6 } UNIT "1/a"
#ZEN$ ASSIGN h = { 0.1, 0.05, 0.02, 0.01 } UNIT "a"

end = 50.0
steps = round(end / h)


def change(x, y):
    return alpha * x - beta * x * y, delta * x * y - gamma * y


def conserved(x, y):
    return delta * x - gamma * log(x) + beta * y - alpha * log(y)


def step(x, y):
    k1 = change(x, y)
    k2 = change(x + h / 2 * k1[0], y + h / 2 * k1[1])
    k3 = change(x + h / 2 * k2[0], y + h / 2 * k2[1])
    k4 = change(x + h * k3[0], y + h * k3[1])
    return (
        x + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0]),
        y + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1]),
    )


rabbits, foxes = 10.0, 5.0
before = conserved(rabbits, foxes)
history = [(rabbits, foxes)]
for _ in range(steps):
    rabbits, foxes = step(rabbits, foxes)
    history.append((rabbits, foxes))

print(f"after {end:g} years: {rabbits:.3f} rabbits, {foxes:.3f} foxes")
print(f"steps: {steps}")
print(f"drift of V: {abs(conserved(rabbits, foxes) / before - 1):.3e}")

if "ZEN_METRICS" in os.environ:
    with open(os.environ["ZEN_METRICS"], "a", encoding="utf-8") as metrics:
        for name, column in zip(("rabbits", "foxes"), zip(*history)):
            print(json.dumps({f"{name}_max": max(column), f"{name}_min": min(column)}), file=metrics)
