/* CartPole over n lanes by hand, as a yardstick for the compiled kernel: the same arithmetic, libm calls, validation,
   time limit, next-step autoreset and PCG64 draws, in one loop. Built by benchmarks/vector.py with -O3. */
#include <math.h>
#include <stdint.h>

typedef struct { __uint128_t state, inc; } pcg64;

static double draw(pcg64 *rng) {
  rng->state = rng->state * (((__uint128_t)2549297995355413924ULL << 64) + 4865540595714422341ULL) + rng->inc;
  uint64_t high = rng->state >> 64, mixed = high ^ (uint64_t)rng->state, turn = high >> 58;
  return (double)(((mixed >> turn) | (mixed << ((-turn) & 63))) >> 11) * (1.0 / 9007199254740992.0);
}

static double first(pcg64 *rng) { return -0.05 + 0.1 * draw(rng); }

int64_t step_lanes(int64_t n, int64_t limit, const int64_t *action, double *x, double *x_dot, double *theta,
                   double *theta_dot, int64_t *steps, uint8_t *ended, float *obs, double *reward, uint8_t *terminated,
                   uint8_t *truncated, pcg64 *rng) {
  for (int64_t i = 0; i < n; i++)
    if (action[i] < 0 || action[i] > 1) return -1 - i;
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    if (ended[i]) {
      x[i] = first(rng + i), x_dot[i] = first(rng + i), theta[i] = first(rng + i), theta_dot[i] = first(rng + i);
      ended[i] = terminated[i] = truncated[i] = 0;
      steps[i] = 0;
      reward[i] = 0.0;
    } else {
      double force = action[i] == 1 ? 10.0 : -10.0, c = cos(theta[i]), s = sin(theta[i]);
      double push = (force + 0.05 * (theta_dot[i] * theta_dot[i]) * s) / 1.1;
      double acc = (9.8 * s - c * push) / (0.5 * (4.0 / 3.0 - 0.1 * (c * c) / 1.1));
      double x_acc = push - 0.05 * acc * c / 1.1;
      x[i] += 0.02 * x_dot[i];
      x_dot[i] += 0.02 * x_acc;
      theta[i] += 0.02 * theta_dot[i];
      theta_dot[i] += 0.02 * acc;
      steps[i]++;
      terminated[i] = fabs(x[i]) > 2.4 || fabs(theta[i]) > 12 * 2 * M_PI / 360;
      truncated[i] = limit > 0 && steps[i] >= limit;
      reward[i] = 1.0;
      ended[i] = terminated[i] || truncated[i];
      count += ended[i];
    }
    obs[4 * i] = x[i], obs[4 * i + 1] = x_dot[i], obs[4 * i + 2] = theta[i], obs[4 * i + 3] = theta_dot[i];
  }
  return count;
}
