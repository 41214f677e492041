"""Predicted execution time of the WIEN2k workflow for a given placement of its tasks.

lapw0 computes the potential, lapw1 the eigenvalues of each k-point, lapw2 the densities, mixer
the next potential. The work of a k-point is 7 A N^2 + N^3 for A atoms and a matrix of size N;
lapw2 needs a tenth of that and 200 N A bytes of vectors from the machine where lapw1 ran.
A host that is not in the testbed stands for an idle machine of 3 GHz.
"""
#ZEN$ SUBSTITUTE lapw0_host = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host1 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host2 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host3 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host4 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host5 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host6 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host7 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host8 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host9 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw1_host10 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host1 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host2 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host3 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host4 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host5 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host6 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host7 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host8 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host9 = { machine{1:300} }
#ZEN$ SUBSTITUTE lapw2_host10 = { machine{1:300} }
#ZEN$ SUBSTITUTE mixer_host = @lapw0_host
#ZEN$ RUN "python3 wien2k.py"
#ZEN$ METRIC predicted FROM stdout REGEX "predicted time (\S+) s" UNIT "s"
#ZEN$ METRIC transfer FROM stdout REGEX "of it for transfers (\S+) s" UNIT "s"
#ZEN$ METRIC machines FROM stdout REGEX "on (\d+) machines"
#ZEN$ OBJECTIVE MINIMIZE predicted
import re

ATOMS, SIZE = 64, 6000
W_LAPW1 = 7 * ATOMS * SIZE**2 + SIZE**3
W_LAPW2 = 0.1 * W_LAPW1
W_LAPW0, W_MIXER = 4e10, 1e9
VECTORS = 200 * SIZE * ATOMS

tasks, transfers = {}, []


def job(name, host, work):
    tasks[name] = (host, work)
    return name


def stage(source, target, size):
    transfers.append((source, target, size))


lapw0 = job("lapw0", "lapw0_host", W_LAPW0)
lapw1 = [
    job("lapw1_1", "lapw1_host1", W_LAPW1),
    job("lapw1_2", "lapw1_host2", W_LAPW1),
    job("lapw1_3", "lapw1_host3", W_LAPW1),
    job("lapw1_4", "lapw1_host4", W_LAPW1),
    job("lapw1_5", "lapw1_host5", W_LAPW1),
    job("lapw1_6", "lapw1_host6", W_LAPW1),
    job("lapw1_7", "lapw1_host7", W_LAPW1),
    job("lapw1_8", "lapw1_host8", W_LAPW1),
    job("lapw1_9", "lapw1_host9", W_LAPW1),
    job("lapw1_10", "lapw1_host10", W_LAPW1),
]
lapw2 = [
    job("lapw2_1", "lapw2_host1", W_LAPW2),
    job("lapw2_2", "lapw2_host2", W_LAPW2),
    job("lapw2_3", "lapw2_host3", W_LAPW2),
    job("lapw2_4", "lapw2_host4", W_LAPW2),
    job("lapw2_5", "lapw2_host5", W_LAPW2),
    job("lapw2_6", "lapw2_host6", W_LAPW2),
    job("lapw2_7", "lapw2_host7", W_LAPW2),
    job("lapw2_8", "lapw2_host8", W_LAPW2),
    job("lapw2_9", "lapw2_host9", W_LAPW2),
    job("lapw2_10", "lapw2_host10", W_LAPW2),
]
mixer = job("mixer", "mixer_host", W_MIXER)
for first, second in zip(lapw1, lapw2):
    stage(lapw0, first, 2e6)
    stage(first, second, VECTORS)
    stage(second, mixer, 1e6)


def machine(host):
    """Speed (operations per second) and site: 16 fast machines, a Myrinet cluster, and the rest."""
    if not re.fullmatch(r"machine\d+", host):
        return 3.0e9, host
    number = int(host.removeprefix("machine"))
    if number <= 16:
        return 3.0e9, "Linz"
    if number <= 80:
        return 0.7e9, "Vienna"
    return (1.0 + number % 7 / 5) * 1e9, ("Innsbruck", "Salzburg")[number % 2]


def seconds(source, target, size):
    if source == target:
        return 0.0
    here, there = machine(source)[1], machine(target)[1]
    return size / (2e8 if here == there == "Vienna" else 1e7 if here == there else 1e6)


free, end, wire = {}, {}, {}
for name, (host, work) in tasks.items():  # they stand in topological order
    ready = (0.0, 0.0)
    for source, target, size in transfers:
        if target == name:
            lasts = seconds(tasks[source][0], host, size)
            ready = max(ready, (end[source] + lasts, wire[source] + lasts))
    end[name] = max(ready[0], free.get(host, 0.0)) + work / machine(host)[0]
    free[host], wire[name] = end[name], ready[1]
    print(f"{name:10} {host:14} ends at {end[name]:9.2f}")
print(f"predicted time {end[mixer]:.3f} s on {len(free)} machines")
print(f"of it for transfers {wire[mixer]:.3f} s")
