"""A map: towns at random places, each with roads to its nearest neighbours.

The routes on it are looked for by the next stage, ../routes. To draw a map is slow, and each is
drawn once, however many routes are looked for on it.
"""
#ZEN$ RUN "python3 roads.py" TIMEOUT 60s
#ZEN$ OUTPUT "roads.csv"
#ZEN$ METRIC roads FROM stdout REGEX "(\d+) roads"
#ZEN$ METRIC length FROM stdout REGEX "(\S+) km" UNIT "km"
import csv
from math import dist
from random import Random

towns = 200
nearest = 3
#ZEN$ ASSIGN towns = { 200:800:*2 }
#ZEN$ ASSIGN nearest = { 3, 6 }

chance = Random(1736)
places = sorted((chance.uniform(0, 1000), chance.uniform(0, 1000)) for _ in range(towns))
roads = {(i, i + 1) for i in range(towns - 1)}  # so that every town can be reached
for i, here in enumerate(places):
    others = sorted(range(towns), key=lambda j: dist(here, places[j]))
    roads |= {(min(i, j), max(i, j)) for j in others[1 : nearest + 1]}

with open("roads.csv", "w", newline="") as file:
    lines = csv.writer(file)
    lines.writerow(["from", "to", "x1", "y1", "x2", "y2"])
    lines.writerows([i, j, *places[i], *places[j]] for i, j in sorted(roads))
length = sum(dist(places[i], places[j]) for i, j in roads)
print(f"{len(roads)} roads, {length:.1f} km")
