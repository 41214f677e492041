"""The area under 4 / (1 + x^2) from 0 to 1 is pi: which rule is how good?"""

import math

n = 1000
rule = "midpoint"
#ZEN$ ASSIGN n = { 10:10000:*10 }
#ZEN$ ASSIGN rule = { '"midpoint"', '"trapezoid"' }
#ZEN$ RUN "python3 first.py" TIMEOUT 30s
#ZEN$ METRIC error FROM stdout REGEX "error = (\S+)"
#ZEN$ OBJECTIVE MINIMIZE error


def f(x):
    return 4 / (1 + x * x)


if rule == "trapezoid":
    total = (f(0) + f(1)) / 2 + sum(f(i / n) for i in range(1, n))
else:
    total = sum(f((i + 0.5) / n) for i in range(n))

print(f"pi = {total / n:.15f}")
print(f"error = {abs(total / n - math.pi):.3e}")
