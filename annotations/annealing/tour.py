"""A short round trip through random cities by simulated annealing.

    python3 tour.py [seed]

The cities are always the same; the seed only steers the search. One run says little about a
cooling schedule, so each is run thirty times.
"""
#ZEN$ RUN "python3 tour.py {seed}"
#ZEN$ REPEAT 30 SEED seed
#ZEN$ METRIC length FROM stdout REGEX "length (\S+)" UNIT "km"
#ZEN$ METRIC accepted FROM stdout REGEX "accepted (\d+) of" TAKE last
#ZEN$ METRIC moves FROM stdout REGEX "accepted \d+ of (\d+)"
#ZEN$ METRIC acceptance := accepted / moves
#ZEN$ OBJECTIVE MINIMIZE length
import random
import sys
from math import dist, exp

cooling = 0.95
start = 300.0
sweep = 200
#ZEN$ ASSIGN cooling = { 0.8, 0.9, 0.95, 0.99 }
#ZEN$ ASSIGN start = { 30, 100, 300 } UNIT "km"
#ZEN$ ASSIGN sweep = { 50:800:*4 }
#ZEN$ CONSTRAINT VALUE cooling < 0.99 or sweep <= 200

places = random.Random(1983)
cities = [(places.uniform(0, 1000), places.uniform(0, 1000)) for _ in range(40)]
count = len(cities)
apart = [[dist(a, b) for b in cities] for a in cities]


def length(tour):
    return sum(apart[tour[i - 1]][tour[i]] for i in range(count))


def gain(tour, i, j):
    """What reversing the cities from i to j adds to the length."""
    a, b, c, d = tour[i - 1], tour[i], tour[j], tour[(j + 1) % count]
    return apart[a][c] + apart[b][d] - apart[a][b] - apart[c][d]


def anneal(chance):
    tour = list(range(count))
    chance.shuffle(tour)
    temperature, accepted, moves = start, 0, 0
    while temperature > 1.0:
        for _ in range(sweep):
            i, j = sorted(chance.sample(range(count), 2))
            if (i, j) == (0, count - 1):
                continue
            moves += 1
            change = gain(tour, i, j)
            if change <= 0 or chance.random() < exp(-change / temperature):
                tour[i : j + 1] = tour[i : j + 1][::-1]
                accepted += 1
        temperature *= cooling
    return tour, accepted, moves


seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
tour, accepted, moves = anneal(random.Random(seed))
print(f"accepted {accepted} of {moves}")
print(f"length {length(tour):.3f} km")
