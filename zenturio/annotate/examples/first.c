// The area under 4 / (1 + x^2) from 0 to 1 is pi: how good is the midpoint rule?
//ZEN$ SUBSTITUTE 1000 = { 10:10000:*10 } AS n TYPE int
//ZEN$ PARAM      level = { O0, O2 }
//ZEN$ BUILD "cc -{level} first.c -o first -lm"
//ZEN$ RUN   "./first" TIMEOUT 30s
//ZEN$ METRIC error FROM stdout REGEX "error = (\S+)"
//ZEN$ OBJECTIVE MINIMIZE error
#include <math.h>
#include <stdio.h>

int main(void) {
    const int n = 1000;
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double x = (i + 0.5) / n;
        sum += 4.0 / (1.0 + x * x);
    }
    printf("pi = %.15f\nerror = %.3e\n", sum / n, fabs(sum / n - acos(-1.0)));
    return 0;
}
