"""Short routes on a map: how far a search looks around, and how short what it finds is.

A road is followed first whose way so far, and `weight` times the distance to the aim, are least:
0 is Dijkstra's algorithm, 1 is A*, and beyond that less is looked at and routes become longer. The
map is drawn by the stage before, ../roads.
"""
#ZEN$ AFTER "roads" ON towns, nearest
#ZEN$ RUN "python3 routes.py" TIMEOUT 60s
#ZEN$ PARAM towns = { 200:800:*2 }
#ZEN$ PARAM nearest = { 3, 6 }
#ZEN$ METRIC looked FROM stdout REGEX "looked at (\S+) towns"
#ZEN$ METRIC length FROM stdout REGEX "routes of (\S+) km" UNIT "km"
#ZEN$ METRIC share := looked / towns
#ZEN$ OBJECTIVE MINIMIZE share, MINIMIZE length
import csv
from heapq import heappop, heappush
from math import dist
from random import Random

weight = 1
#ZEN$ ASSIGN weight = { 0:2:0.5 }

ROUTES = 50
places, roads = {}, {}
with open("roads/roads.csv", newline="") as file:
    for row in csv.DictReader(file):
        one, other = int(row["from"]), int(row["to"])
        places[one] = float(row["x1"]), float(row["y1"])
        places[other] = float(row["x2"]), float(row["y2"])
        roads.setdefault(one, []).append(other)
        roads.setdefault(other, []).append(one)


def route(start, aim):
    """The length of the route that is found, and how many towns were looked at for it."""
    ahead, known, seen = [(0.0, start)], {start: 0.0}, set()
    while True:
        _, town = heappop(ahead)
        if town == aim:
            return known[town], len(seen)
        if town in seen:
            continue
        seen.add(town)
        for near in roads[town]:
            way = known[town] + dist(places[town], places[near])
            if way < known.get(near, float("inf")):
                known[near] = way
                heappush(ahead, (way + weight * dist(places[near], places[aim]), near))


chance = Random(1956)
found = [route(*chance.sample(sorted(places), 2)) for _ in range(ROUTES)]
lengths, looked = zip(*found)
print(f"looked at {sum(looked) / ROUTES:.1f} towns for routes of {sum(lengths) / ROUTES:.2f} km")
