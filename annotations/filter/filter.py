"""Removes the noise from a signal: Fourier transform, cut the high frequencies, transform back.

The regions named in the directives are measured one by one.
"""
#ZEN$ RUN "python3 filter.py"
#ZEN$ METRIC rms FROM stdout REGEX "rms error (\S+)"
#ZEN$ METRIC operations := 5 * n * log2(n)
#ZEN$ CONSTRAINT VALUE cut < n / 2
#ZEN$ OBJECTIVE MINIMIZE rms
import random
from cmath import exp, pi
from math import sin, sqrt

n = 1024
cut = 16
#ZEN$ ASSIGN n = { 256:4096:*2 }
#ZEN$ ASSIGN cut = { 8:256:*2 }


def fft(x, sign=-1):
    """The discrete Fourier transform, by halves (Cooley and Tukey)."""
    size = len(x)
    if size == 1:
        return x
    even, odd = fft(x[::2], sign), fft(x[1::2], sign)
    turned = [exp(sign * 2j * pi * k / size) * odd[k] for k in range(size // 2)]
    return [a + b for a, b in zip(even, turned)] + [a - b for a, b in zip(even, turned)]


noise = random.Random(1965)
clean = [sin(2 * 3.141592653589793 * 5 * i / n) for i in range(n)]
signal = [x + noise.gauss(0, 0.3) for x in clean]

#ZEN$ CR forward PMETRIC WTIME,CTIME BEGIN
spectrum = fft(signal)
#ZEN$ END CR

#ZEN$ CR suppress PMETRIC WTIME BEGIN
for k in range(cut, n - cut + 1):
    spectrum[k] = 0
#ZEN$ END CR

#ZEN$ CR backward PMETRIC WTIME,MAXRSS BEGIN
filtered = [x.real / n for x in fft(spectrum, +1)]
#ZEN$ END CR

rms = sqrt(sum((a - b) ** 2 for a, b in zip(filtered, clean)) / n)
print(f"n {n}, cut at {cut}")
print(f"rms error {rms:.6f}")
