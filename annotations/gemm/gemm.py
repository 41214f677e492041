"""Predicted rate of a tiled GEMM kernel on a GPU, for the parameters of CLBlast's kernel.

A work-group computes a tile of MWG x NWG elements of C with MDIMC x NDIMC threads, in steps of
KWG; MDIMA and NDIMB reshape the threads for loading A and B, VWM and VWN are the widths of the
vectors, SA and SB say whether the tiles are staged in local memory. The model takes the lesser
of what the arithmetic units and the memory allow, at the occupancy that the tile leaves.

    python3 gemm.py MWG=64 NWG=64 ...
"""
#ZEN$ PARAM MWG = { 16:128:*2 }
#ZEN$ PARAM NWG = { 16:128:*2 }
#ZEN$ PARAM KWG = { 16, 32 }
#ZEN$ PARAM MDIMC = { 8:32:*2 }
#ZEN$ PARAM NDIMC = { 8:32:*2 }
#ZEN$ PARAM MDIMA = { 8:32:*2 }
#ZEN$ PARAM NDIMB = { 8:32:*2 }
#ZEN$ PARAM VWM = { 1:8:*2 }
#ZEN$ PARAM VWN = { 1:8:*2 }
#ZEN$ PARAM SA = { 0, 1 }
#ZEN$ PARAM SB = { 0, 1 }
#ZEN$ PARAM threads := MDIMC * NDIMC
#ZEN$ PARAM local := 4 * KWG * (SA * MWG + SB * NWG)
#ZEN$ CONSTRAINT VALUE divides(MDIMC * VWM, MWG) and divides(NDIMC * VWN, NWG)
#ZEN$ CONSTRAINT VALUE divides(MDIMA * VWM, MWG) and divides(NDIMB * VWN, NWG)
#ZEN$ CONSTRAINT VALUE KWG % (threads // MDIMA) == 0 and KWG % (threads // NDIMB) == 0
#ZEN$ CONSTRAINT VALUE 64 <= threads <= 512
#ZEN$ CONSTRAINT VALUE local <= 16KiB
#ZEN$ CONSTRAINT VALUE SA == 1 or MDIMA == MDIMC
#ZEN$ CONSTRAINT VALUE SB == 1 or NDIMB == NDIMC
#ZEN$ RUN "python3 gemm.py MWG={MWG} NWG={NWG} KWG={KWG} MDIMC={MDIMC} NDIMC={NDIMC}
#ZEN$&     MDIMA={MDIMA} NDIMB={NDIMB} VWM={VWM} VWN={VWN} SA={SA} SB={SB}"
#ZEN$ METRIC gflops FROM stdout REGEX "predicted (\S+) GFLOP/s" UNIT "GFLOP/s"
#ZEN$ METRIC occupancy FROM stdout REGEX "occupancy (\S+)"
#ZEN$ OBJECTIVE MAXIMIZE gflops
import sys

# A card with 40 multiprocessors, each with 64 units, 64 Ki registers and 64 KiB of local memory.
PEAK, BANDWIDTH = 8100.0, 320.0  # GFLOP/s, GB/s
REGISTERS, LOCAL, THREADS, GROUPS = 65536, 65536, 1024, 16

settings = dict.fromkeys(("MWG", "NWG"), 64)
settings |= dict(KWG=16, MDIMC=16, NDIMC=16, MDIMA=16, NDIMB=16, VWM=2, VWN=2, SA=1, SB=1)


def predict(MWG, NWG, KWG, MDIMC, NDIMC, MDIMA, NDIMB, VWM, VWN, SA, SB):
    threads = MDIMC * NDIMC
    tile = (MWG // MDIMC) * (NWG // NDIMC)  # elements of C for each thread
    registers = 24 + tile + (MWG // MDIMC + NWG // NDIMC) * VWM * VWN // 2
    local = 4 * KWG * (SA * MWG + SB * NWG)

    resident = min(
        GROUPS, THREADS // threads, REGISTERS // (registers * threads), LOCAL // max(local, 1)
    )
    occupancy = resident * threads / THREADS
    if registers > 255 or resident == 0:
        return 1.0, 0.0  # spills to memory

    # Loads for each multiplication, by way of registers; the caches help what is not staged.
    reuse = tile / (MWG // MDIMC + NWG // NDIMC)
    issue = reuse / (reuse + 0.6 + 0.5 * (VWM == 1) + 0.5 * (VWN == 1))
    hiding = min(1.0, 0.35 + occupancy * (1 + tile / 16))
    arithmetic = PEAK * issue * hiding

    traffic = 4 * ((1 if SA else 2.5) / NWG + (1 if SB else 2.5) / MWG)  # bytes for each FMA
    coalesced = min(1.0, MDIMA * VWM / 32) * min(1.0, NDIMB * VWN / 32)
    memory = 2 * BANDWIDTH * (0.4 + 0.6 * coalesced) / traffic * min(1.0, 0.5 + occupancy)
    return min(arithmetic, memory), occupancy


for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name not in settings:
        sys.exit(f"gemm.py: no parameter {name}")
    settings[name] = int(value)
gflops, occupancy = predict(**settings)
print(f"predicted {gflops:.1f} GFLOP/s at occupancy {occupancy:.3f}")
