/* Measures OpenBLAS's sgemm on one core; see ../README.md. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(void) {
  static const int shapes[][3] = {{128, 128, 128}, {256, 256, 256}, {1024, 1024, 1024}, {64, 29, 29}, {64, 128, 784}, {64, 784, 128}};
  extern char *openblas_get_corename(void);
  extern void openblas_set_num_threads(int);
  openblas_set_num_threads(1);
  fprintf(stderr, "OpenBLAS kernels: %s\n", openblas_get_corename());
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
    float *a = malloc(4L * m * k), *b = malloc(4L * k * n), *c = calloc(m * n, 4);
    for (int i = 0; i < m * k; i++) a[i] = i % 7 - 3;
    for (int i = 0; i < k * n; i++) b[i] = i % 5 - 2;
    double flops = 2.0 * m * n * k, best = 0;
    long times = 1 + (long)(2e9 / flops);
    for (int round = 0; round < 12; round++) {
      double start = now();
      for (long i = 0; i < times; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
      double rate = flops * times / (now() - start) / 1e9;
      if (rate > best) best = rate;
    }
    printf("%dx%dx%d %.1f\n", m, n, k, best);
    free(a), free(b), free(c);
  }
  return 0;
}
