"""A genetic algorithm that schedules the WIEN2k workflow: 45 genes, 314 machines.

A gene is a task: lapw0, 22 k-points of lapw1 and 22 of lapw2; its allele is a machine. After
Prodan and Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid, SAC 2005.
"""
import random
import sys

#ZEN$ SUBSTITUTE "20%" = { 10%, 20% } AS steady_state
#ZEN$ SUBSTITUTE yes = { yes, no } AS elitist BEGIN
population = 150
crossover = 0.8
mutation = 0.001
generations = 500
steady_state = "20%"
scaling = 2
elitist = "yes"
#ZEN$ END
#ZEN$ ASSIGN population = { 50:200:50 }
#ZEN$ ASSIGN crossover = { 0.4:1:0.2 }
#ZEN$ ASSIGN mutation = { 0.001, 0.01, 0.1 }
#ZEN$ ASSIGN generations = { 100:500:100 }
#ZEN$ ASSIGN scaling = { 1, 1.5, 2 }
#ZEN$ RUN "python3 ga.py {seed}" TIMEOUT 1min
#ZEN$ REPEAT 30 SEED seed
#ZEN$ METRIC precision FROM stdout REGEX "precision (\S+) %" UNIT "%"
#ZEN$ METRIC visited FROM stdout REGEX "visited points (\d+)"
#ZEN$ METRIC improvement FROM stdout REGEX "improvement (\S+) %" UNIT "%"
#ZEN$ OBJECTIVE MINIMIZE precision, MINIMIZE visited

K = 22
TASKS = 1 + 2 * K
WORK = [4e10] + K * [2.3e11] + K * [2.3e10]
VECTORS = 7.7e7
grid = random.Random(2005)  # a snapshot of the testbed: idle share of the speed, and the site
SPEEDS = 16 * [(3.0e9, 0)] + 64 * [(0.7e9, 1)] + 117 * [(1.8e9, 2)] + 117 * [(1.0e9, 3)]
MACHINES = [(speed * grid.uniform(0.02, 1.0), site) for speed, site in SPEEDS]
TIME = [[work / speed for speed, _ in MACHINES] for work in WORK]
SITE = [site for _, site in MACHINES]
BANDWIDTH = [1e7, 2e8, 1e7, 1e7]
OPTIMUM = sum(WORK[i] / 3.0e9 for i in (0, 1, -1))  # every task on an idle machine of 3 GHz


def predict(schedule):
    """The execution time; k-points on one machine run one after the other."""
    busy = {}
    for task in range(1, K + 1):
        host = schedule[task]
        busy[host] = busy.get(host, 0.0) + TIME[task][host]
    middle = TIME[0][schedule[0]] + max(busy.values())
    busy = {}
    for task in range(K + 1, TASKS):
        source, host = schedule[task - K], schedule[task]
        lasts = TIME[task][host]
        if source != host:
            lasts += VECTORS / (BANDWIDTH[SITE[host]] if SITE[source] == SITE[host] else 1e6)
        busy[host] = busy.get(host, 0.0) + lasts
    return middle + max(busy.values())


def expected(times):
    """How many offspring each individual may expect, after linear scaling of the fitness."""
    fitness = [max(times) - time for time in times]
    mean, best = sum(fitness) / len(fitness), max(fitness)
    if scaling > 1 and best > mean:
        slope = (scaling - 1) * mean / (best - mean)
        fitness = [max(0.0, slope * (f - mean) + mean) for f in fitness]
    total = sum(fitness)
    return [f * len(fitness) / total if total else 1.0 for f in fitness]


def select(shares, chance):
    """Whole parts for certain, the rest of the places by lot among the remainders."""
    chosen = [i for i, share in enumerate(shares) for _ in range(int(share))]
    rest = [share - int(share) + 1e-12 for share in shares]
    chosen += chance.choices(range(len(shares)), rest, k=len(shares) - len(chosen))
    chance.shuffle(chosen)
    return chosen


def offspring(mother, father, chance):
    if chance.random() < crossover:
        cut = chance.randrange(1, TASKS)
        mother, father = mother[:cut] + father[cut:], father[:cut] + mother[cut:]
    return [
        [chance.randrange(len(MACHINES)) if chance.random() < mutation else gene for gene in child]
        for child in (mother, father)
    ]


def search(chance):
    crowd = [[chance.randrange(len(MACHINES)) for _ in range(TASKS)] for _ in range(population)]
    times = [predict(schedule) for schedule in crowd]
    known = {tuple(schedule): time for schedule, time in zip(crowd, times)}
    first = best = min(times)
    patience = round(generations * float(steady_state.rstrip("%")) / 100)
    improved = generation = 0
    while generation < generations and generation - improved < patience:
        generation += 1
        champion = crowd[times.index(min(times))]
        parents = select(expected(times), chance)
        pairs = zip(parents[::2], parents[1::2])
        crowd = [child for a, b in pairs for child in offspring(crowd[a], crowd[b], chance)]
        if elitist == "yes":
            crowd[0] = champion
        for key in map(tuple, crowd):
            if key not in known:
                known[key] = predict(key)
        times = [known[tuple(schedule)] for schedule in crowd]
        if min(times) < best:
            best, improved = min(times), generation
    return first, min(times), len(known), generation


seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
first, best, visited, generation = search(random.Random(seed))
print(f"predicted time {best:.1f} s after {generation} generations")
print(f"precision {100 * (best - OPTIMUM) / OPTIMUM:.2f} %")
print(f"visited points {visited}")
print(f"improvement {100 * (first - best) / best:.2f} %")
