/* Sun and outer planets, integrated with the leapfrog (kick, drift, kick).
 * Units: astronomical units, days, solar masses.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BODIES 5
#define G 2.959122082855911e-4

struct body { double x[3], v[3], m; };

static struct body sky[BODIES] = {
    {{0, 0, 0}, {0, 0, 0}, 1.00000597682},
    {{-3.5023653, -3.8169847, -1.5507963}, {0.00565429, -0.00412490, -0.00190589}, 9.54786104e-4},
    {{9.0755314, -3.0458353, -1.6483708}, {0.00168318, 0.00483525, 0.00192462}, 2.85583733e-4},
    {{8.3101420, -16.2901086, -7.2521278}, {0.00354178, 0.00137102, 0.00055029}, 4.37273165e-5},
    {{11.4707666, -25.7294829, -10.8169456}, {0.00288930, 0.00114527, 0.00039677}, 5.17759139e-5},
};

static void kick(double h)
{
    for (int i = 0; i < BODIES; i++)
        for (int j = i + 1; j < BODIES; j++) {
            double d[3], r2 = 0;
            for (int k = 0; k < 3; k++) {
                d[k] = sky[j].x[k] - sky[i].x[k];
                r2 += d[k] * d[k];
            }
            double f = G * h / (r2 * sqrt(r2));
            for (int k = 0; k < 3; k++) {
                sky[i].v[k] += f * sky[j].m * d[k];
                sky[j].v[k] -= f * sky[i].m * d[k];
            }
        }
}

static double energy(void)
{
    double e = 0;
    for (int i = 0; i < BODIES; i++) {
        for (int k = 0; k < 3; k++)
            e += 0.5 * sky[i].m * sky[i].v[k] * sky[i].v[k];
        for (int j = i + 1; j < BODIES; j++) {
            double r2 = 0;
            for (int k = 0; k < 3; k++)
                r2 += pow(sky[j].x[k] - sky[i].x[k], 2);
            e -= G * sky[i].m * sky[j].m / sqrt(r2);
        }
    }
    return e;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 1000000;
    double h = 10.0, before = energy();

    clock_t start = clock();
    for (int s = 0; s < steps; s++) {
        kick(h / 2);
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < 3; k++)
                sky[i].x[k] += h * sky[i].v[k];
        kick(h / 2);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;

    printf("%d steps of %g days\n", steps, h);
    printf("time %.4f s\n", seconds);
    printf("energy drift %.6e\n", fabs(energy() / before - 1));
    return 0;
}
