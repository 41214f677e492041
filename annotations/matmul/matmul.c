/* C = A B for square matrices, with one loop shared among OpenMP threads.
 *
 * cc -O2 -fopenmp matmul.c -o matmul -lm && OMP_NUM_THREADS=2 ./matmul
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

//ZEN$ ENV        OMP_NUM_THREADS = { 1, 2, 4 } AS threads
//ZEN$ CONSTRAINT VALUE n * threads <= 2048
//ZEN$ BUILD      "cc -O2 -fopenmp matmul.c -o matmul -lm"
//ZEN$ RUN        "./matmul" TIMEOUT 30s CPUS threads
//ZEN$ REQUIRE    host.memory >= 512MB
//ZEN$ METRIC     gflops FROM stdout REGEX "GFLOPS=\s*(\S+)" UNIT "GFLOP/s"
//ZEN$ METRIC     residual FROM stdout REGEX "residual=\s*(\S+)"
//ZEN$ METRIC     rate_per_thread := gflops / threads UNIT "GFLOP/s"
//ZEN$ OBJECTIVE  MAXIMIZE gflops

static double *matrix(int n)
{
    double *a = malloc((size_t)n * n * sizeof *a);
    if (a == NULL) {
        perror("matmul");
        exit(EXIT_FAILURE);
    }
    return a;
}

static void multiply(int n, const double *a, const double *b, double *c)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            c[i * n + j] = 0.0;
        for (int k = 0; k < n; k++) {
            const double aik = a[i * n + k];
            for (int j = 0; j < n; j++)
                c[i * n + j] += aik * b[k * n + j];
        }
    }
}

int main(void)
{
    int n = 256;
    //ZEN$ ASSIGN n = { 128:1024:*2 }

    double *a = matrix(n), *b = matrix(n), *c = matrix(n);

    /* A has rows of 1/(i+1), B is all ones: every element of row i of C is n/(i+1). */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            a[i * n + j] = 1.0 / (i + 1);
            b[i * n + j] = 1.0;
        }

    double start = omp_get_wtime();
    multiply(n, a, b, c);
    double seconds = omp_get_wtime() - start;

    double residual = 0.0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            residual = fmax(residual, fabs(c[i * n + j] * (i + 1) / n - 1.0));

    printf("n=%d threads=%d\n", n, omp_get_max_threads());
    printf("GFLOPS= %.3f\n", 2e-9 * n * n * n / seconds);
    printf("residual= %.2e\n", residual);
    free(a), free(b), free(c);
    return residual < 1e-10 ? EXIT_SUCCESS : EXIT_FAILURE;
}
