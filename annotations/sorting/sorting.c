/* Which way of sorting, and how should it be set? Each has parameters of its own, which mean
 * nothing to the others.
 *
 *   ./sorting quick|shell|radix count [cutoff | gap | bits]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

//ZEN$ PARAM algorithm = { quick, shell, radix }
//ZEN$ PARAM count = { 1000:1000000:*10 }
//ZEN$ PARAM cutoff = { 4:64:*2 } WHEN algorithm == "quick" DEFAULT 1
//ZEN$ PARAM ratio = { 2.0:3.0:0.25 } WHEN algorithm == "shell" DEFAULT 2
//ZEN$ PARAM bits = { 4, 8, 11, 16 } WHEN algorithm == "radix" DEFAULT 8
//ZEN$ CONSTRAINT VALUE bits <= 11 or count >= 100000
//ZEN$ BUILD "cc -O2 sorting.c -o sorting"
//ZEN$ RUN "./sorting {algorithm} {count} {cutoff} {ratio} {bits}" TIMEOUT 10s
//ZEN$ METRIC time FROM stdout REGEX "sorted in (\S+) us" UNIT "us"
//ZEN$ METRIC per_key := 1000 * time / count UNIT "ns"
//ZEN$ OBJECTIVE MINIMIZE per_key

static int cutoff = 16, bits = 8;
static double ratio = 2.25;

static void insertion(uint32_t *a, long n, long gap)
{
    for (long i = gap; i < n; i++) {
        uint32_t key = a[i];
        long j = i;
        for (; j >= gap && a[j - gap] > key; j -= gap)
            a[j] = a[j - gap];
        a[j] = key;
    }
}

static void quick(uint32_t *a, long n)
{
    while (n > cutoff && n > 2) {
        uint32_t x = a[0], y = a[n / 2], z = a[n - 1];
        uint32_t pivot = x < y ? (y < z ? y : x < z ? z : x) : (x < z ? x : y < z ? z : y);
        long i = -1, j = n;
        for (;;) {
            do i++; while (a[i] < pivot);
            do j--; while (a[j] > pivot);
            if (i >= j)
                break;
            uint32_t swap = a[i];
            a[i] = a[j];
            a[j] = swap;
        }
        quick(a, j + 1);
        a += j + 1;
        n -= j + 1;
    }
    insertion(a, n, 1);
}

static void shell(uint32_t *a, long n)
{
    for (double gap = n / ratio; gap >= 2; gap /= ratio)
        insertion(a, n, (long)gap);
    insertion(a, n, 1);
}

static void radix(uint32_t *a, long n)
{
    long buckets = 1L << bits, *start = malloc((buckets + 1) * sizeof *start);
    uint32_t *from = a, *to = malloc(n * sizeof *to), *spare = to;
    for (int shift = 0; shift < 32; shift += bits) {
        memset(start, 0, (buckets + 1) * sizeof *start);
        for (long i = 0; i < n; i++)
            start[(from[i] >> shift) % buckets + 1]++;
        for (long b = 0; b < buckets; b++)
            start[b + 1] += start[b];
        for (long i = 0; i < n; i++)
            to[start[(from[i] >> shift) % buckets]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
    free(spare);
    free(start);
}

int main(int argc, char **argv)
{
    const char *algorithm = argc > 1 ? argv[1] : "quick";
    long n = argc > 2 ? atol(argv[2]) : 100000;
    if (argc > 3) cutoff = atoi(argv[3]);
    if (argc > 4) ratio = atof(argv[4]);
    if (argc > 5) bits = atoi(argv[5]);

    uint32_t *keys = malloc(n * sizeof *keys), state = 2463534242u;
    for (long i = 0; i < n; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        keys[i] = state;
    }

    clock_t start = clock();
    (algorithm[0] == 'q' ? quick : algorithm[0] == 's' ? shell : radix)(keys, n);
    double us = 1e6 * (clock() - start) / CLOCKS_PER_SEC;

    for (long i = 1; i < n; i++)
        if (keys[i - 1] > keys[i])
            return fprintf(stderr, "%s: not sorted at %ld\n", algorithm, i), 1;
    printf("%s: %ld keys sorted in %.0f us\n", algorithm, n, us);
    free(keys);
    return 0;
}
