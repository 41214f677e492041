"""The genetic algorithm once more, slow and obvious: lists, loops, Python's own integers."""

import math


class Chance:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def unit(self):
        return (self.bits() >> 11) / 2**53

    def below(self, size):
        return min(int(self.unit() * size), size - 1)

    def spin(self, weights):
        total = 0.0
        ends = []
        for weight in weights:
            total += weight
            ends.append(total)
        if total <= 0:
            return self.below(len(weights))
        at = self.unit() * total
        return next((i for i, end in enumerate(ends) if end > at), len(weights) - 1)


def fitness_of(losses, worst, factor):
    raw = [worst - loss if loss < math.inf else 0.0 for loss in losses]
    used = [f for f, loss in zip(raw, losses, strict=True) if loss < math.inf]
    if not used or factor <= 1 or max(used) <= min(used):
        return raw
    total = 0.0
    for each in used:
        total += each
    mean, most, least = total / len(used), max(used), min(used)
    if least * (factor - 1) > factor * mean - most:
        slope, shift = (
            (factor - 1) * mean / (most - mean),
            mean * (most - factor * mean) / (most - mean),
        )
    else:
        slope, shift = mean / (mean - least), -least * mean / (mean - least)
    return [
        max(0.0, slope * f + shift) if loss < math.inf else 0.0
        for f, loss in zip(raw, losses, strict=True)
    ]


def parents_of(kind, fitness, losses, rounds, share, chance, count):
    size = len(losses)
    ranking = sorted(range(size), key=losses.__getitem__)
    if kind == "remainder":
        total = 0.0
        for each in fitness:
            total += each
        shares = [f / total * count if total > 0 else 0.0 for f in fitness]
        chosen = [i for i, s in enumerate(shares) for _ in range(int(s))][:count]
        rests = [s - int(s) for s in shares]
        chosen += [chance.spin(rests) for _ in range(count - len(chosen))]
    elif kind == "roulette":
        chosen = [chance.spin(fitness) for _ in range(count)]
    elif kind == "tournament":
        rivals = [[chance.below(size) for _ in range(rounds)] for _ in range(count)]
        chosen = [min(each, key=losses.__getitem__) for each in rivals]
    elif kind == "rank":
        weights = [float(size - ranking.index(i)) for i in range(size)]
        chosen = [chance.spin(weights) for _ in range(count)]
    else:
        best = ranking[: max(2, int(share * size))]
        chosen = [best[i % len(best)] for i in range(count)]
    for i in range(count - 1, 0, -1):
        j = chance.below(i + 1)
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return chosen


def cross(kind, one, other, chance):
    length = len(one)
    if length < 2:
        return
    if kind == "single":
        swapped = range(1 + chance.below(length - 1), length)
    elif kind == "two":
        cuts = sorted([chance.below(length), chance.below(length)])
        swapped = range(cuts[0], cuts[1] + 1)
    else:
        words = [chance.bits() for _ in range(math.ceil(length / 64))]
        swapped = [gene for gene in range(length) if words[gene // 64] >> gene % 64 & 1]
    for gene in swapped:
        one[gene], other[gene] = other[gene], one[gene]


def mutated(kind, gene, size, ordered, reach, chance):
    if size < 2:
        return gene
    if kind == "random" or not ordered:
        others = [value for value in range(size) if value != gene]
        return others[chance.below(size - 1)]
    step = 1 + chance.below(max(1, int(reach * (size - 1))))
    if chance.bits() & 1:
        step = -step
    if not 0 <= gene + step < size:
        step = -step
    return min(max(gene + step, 0), size - 1)


def generation(genes, losses, worst, sizes, ordered, s, chance):
    size = len(genes)
    ranking = sorted(range(size), key=losses.__getitem__)
    children = [list(genes[i]) for i in ranking[: s["elite"]]]
    missing = size - len(children)
    fitness = fitness_of(losses, worst, s["scaling"])
    chosen = parents_of(
        s["selection"], fitness, losses, s["tournament"], s["parents"], chance,
        missing + missing % 2,
    )  # fmt: skip
    born = []
    for father, mother in zip(chosen[::2], chosen[1::2], strict=True):
        one, other = list(genes[father]), list(genes[mother])
        if chance.unit() < s["crossover_rate"]:
            cross(s["crossover"], one, other, chance)
        born += [one, other]
    born = born[:missing]
    rate, at, cells = s["mutation_rate"], 0, missing * len(sizes)
    while rate > 0 and at < cells:
        step = 1 / math.log1p(-rate) if rate < 1 else 0.0
        skip = math.log1p(-chance.unit()) * step
        if skip >= cells - at:
            break
        at += int(skip)
        row, gene = divmod(at, len(sizes))
        born[row][gene] = mutated(
            s["mutation"], born[row][gene], sizes[gene], ordered[gene], s["reach"], chance
        )
        at += 1
    return children + born


def search(score, genes, sizes, ordered, s, seed, sign=1.0):
    """The best loss of each generation, and all genes in the order in which they are met."""
    chance, worst, best, last = Chance(seed), -math.inf, math.inf, 0
    history, met = [], []
    patience = max(1, round(s["generations"] * s["steady"] / 100))
    for number in range(s["generations"]):
        losses = [sign * score(each) for each in genes]
        losses = [loss if math.isfinite(loss) else math.inf for loss in losses]
        met += [tuple(each) for each in genes]
        worst = max([worst, *(loss for loss in losses if loss < math.inf)])
        history.append(min(losses))
        if min(losses) < best:
            best, last = min(losses), number
        if number - last >= patience:
            break
        genes = generation(genes, losses, worst, sizes, ordered, s, chance)
    return history, met
