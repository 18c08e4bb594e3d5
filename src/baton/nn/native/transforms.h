/* Winograd's transforms of one row: m outputs of a filter of r numbers from n = m + r - 1 inputs,
 *     y = A' ((G g) * (B' x)),
 * by evaluation at n points, 0 and infinity among them. Derivatives need the same matrices transposed. */

/* Points 0 1 -1 infinity. */
INLINE void inputs4(const v8 *x, v8 *y) { /* B' */
    y[0] = x[0] - x[2], y[1] = x[1] + x[2], y[2] = x[2] - x[1], y[3] = x[3] - x[1];
}
INLINE void inputs4_back(const v8 *y, v8 *x) { /* B */
    x[0] = y[0], x[1] = y[1] - y[2] - y[3], x[2] = y[1] + y[2] - y[0], x[3] = y[3];
}

/* Points 0 1 -1 2 -2 infinity: the two of opposite sign share their even and odd halves. */
INLINE void inputs6(const v8 *x, v8 *y) {
    v8 even = x[4] - 4.0f * x[2], odd = x[3] - 4.0f * x[1];
    y[0] = 4.0f * x[0] - 5.0f * x[2] + x[4];
    y[1] = even + odd, y[2] = even - odd;
    even = x[4] - x[2], odd = x[3] - x[1];
    y[3] = even + 2.0f * odd, y[4] = even - 2.0f * odd;
    y[5] = 4.0f * x[1] - 5.0f * x[3] + x[5];
}
INLINE void inputs6_back(const v8 *y, v8 *x) {
    v8 sum1 = y[1] + y[2], odd1 = y[1] - y[2], sum2 = y[3] + y[4], odd2 = y[3] - y[4];
    x[0] = 4.0f * y[0];
    x[1] = 4.0f * (y[5] - odd1) - 2.0f * odd2;
    x[2] = -5.0f * y[0] - 4.0f * sum1 - sum2;
    x[3] = odd1 + 2.0f * odd2 - 5.0f * y[5];
    x[4] = y[0] + sum1 + sum2;
    x[5] = y[5];
}

/* 2 outputs, filter of 3. */
INLINE void outputs23(const v8 *y, v8 *x) { /* A' */
    x[0] = y[0] + y[1] + y[2], x[1] = y[1] - y[2] + y[3];
}
INLINE void outputs23_back(const v8 *x, v8 *y) { /* A */
    y[0] = x[0], y[1] = x[0] + x[1], y[2] = x[0] - x[1], y[3] = x[1];
}
INLINE void filter23(const v8 *g, v8 *u) { /* G */
    v8 even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
    u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
}
INLINE void filter23_back(const v8 *u, v8 *g) { /* G' */
    v8 even = 0.5f * (u[1] + u[2]);
    g[0] = u[0] + even, g[1] = 0.5f * (u[1] - u[2]), g[2] = even + u[3];
}

/* 4 outputs, filter of 3. */
INLINE void outputs43(const v8 *y, v8 *x) {
    v8 sum1 = y[1] + y[2], odd1 = y[1] - y[2], sum2 = y[3] + y[4], odd2 = y[3] - y[4];
    x[0] = y[0] + sum1 + sum2, x[1] = odd1 + 2.0f * odd2, x[2] = sum1 + 4.0f * sum2, x[3] = odd1 + 8.0f * odd2 + y[5];
}
INLINE void outputs43_back(const v8 *x, v8 *y) {
    v8 even = x[0] + x[2], odd = x[1] + x[3];
    y[0] = x[0], y[1] = even + odd, y[2] = even - odd;
    even = x[0] + 4.0f * x[2], odd = 2.0f * x[1] + 8.0f * x[3];
    y[3] = even + odd, y[4] = even - odd, y[5] = x[3];
}
INLINE void filter43(const v8 *g, v8 *u) {
    v8 even = (g[0] + g[2]) * (-1.0f / 6), odd = g[1] * (-1.0f / 6);
    u[0] = 0.25f * g[0], u[1] = even + odd, u[2] = even - odd;
    even = g[0] * (1.0f / 24) + g[2] * (1.0f / 6), odd = g[1] * (1.0f / 12);
    u[3] = even + odd, u[4] = even - odd, u[5] = g[2];
}
INLINE void filter43_back(const v8 *u, v8 *g) {
    v8 sum1 = (u[1] + u[2]) * (-1.0f / 6), sum2 = u[3] + u[4];
    g[0] = 0.25f * u[0] + sum1 + sum2 * (1.0f / 24);
    g[1] = (u[2] - u[1]) * (1.0f / 6) + (u[3] - u[4]) * (1.0f / 12);
    g[2] = sum1 + sum2 * (1.0f / 6) + u[5];
}

/* 2 outputs, filter of 5. */
INLINE void outputs25(const v8 *y, v8 *x) {
    x[0] = y[0] + (y[1] + y[2]) + (y[3] + y[4]), x[1] = (y[1] - y[2]) + 2.0f * (y[3] - y[4]) + y[5];
}
INLINE void outputs25_back(const v8 *x, v8 *y) {
    y[0] = x[0], y[1] = x[0] + x[1], y[2] = x[0] - x[1];
    y[3] = x[0] + 2.0f * x[1], y[4] = x[0] - 2.0f * x[1], y[5] = x[1];
}
INLINE void filter25(const v8 *g, v8 *u) {
    v8 even = (g[0] + g[2] + g[4]) * (-1.0f / 6), odd = (g[1] + g[3]) * (-1.0f / 6);
    u[0] = 0.25f * g[0], u[1] = even + odd, u[2] = even - odd;
    even = (g[0] + 4.0f * g[2] + 16.0f * g[4]) * (1.0f / 24), odd = (g[1] + 4.0f * g[3]) * (1.0f / 12);
    u[3] = even + odd, u[4] = even - odd, u[5] = g[4];
}
INLINE void filter25_back(const v8 *u, v8 *g) {
    v8 sum1 = (u[1] + u[2]) * (-1.0f / 6), odd1 = (u[1] - u[2]) * (-1.0f / 6);
    v8 sum2 = (u[3] + u[4]) * (1.0f / 24), odd2 = (u[3] - u[4]) * (1.0f / 12);
    g[0] = 0.25f * u[0] + sum1 + sum2, g[1] = odd1 + odd2, g[2] = sum1 + 4.0f * sum2;
    g[3] = odd1 + 4.0f * odd2, g[4] = sum1 + 16.0f * sum2 + u[5];
}

/* The same for squares, rows and then columns, for `channels` side by side:
 * from[i][j] at i * row + j * step, to[k][l] at k * to_row + l * to_step. */
typedef void Square(const float *from, i64 row, i64 step, float *to, i64 to_row, i64 to_step, i64 channels);

#define SQUARE(name, transform, before, after, add) \
    static void name(const float *from, i64 row, i64 step, float *to, i64 to_row, i64 to_step, i64 channels) { \
        for (i64 c = 0; c < channels; c += PAD) { \
            v8 half[before][after]; \
            _Pragma("GCC unroll 6") for (int i = 0; i < before; i++) { \
                v8 line[before]; \
                _Pragma("GCC unroll 6") for (int j = 0; j < before; j++) line[j] = load(from + i * row + j * step + c); \
                transform(line, half[i]); \
            } \
            _Pragma("GCC unroll 6") for (int j = 0; j < after; j++) { \
                v8 line[before], done[after]; \
                _Pragma("GCC unroll 6") for (int i = 0; i < before; i++) line[i] = half[i][j]; \
                transform(line, done); \
                _Pragma("GCC unroll 6") for (int i = 0; i < after; i++) { \
                    float *at = to + i * to_row + j * to_step + c; \
                    if (add) done[i] += load(at); \
                    store(at, done[i]); \
                } \
            } \
        } \
    }

typedef struct {
    i64 m, r, n;
    Square *inputs, *inputs_back, *outputs, *outputs_back, *filter, *filter_back, *filter_add;
    /* inputs_back adds, because its squares overlap; filter_add is filter_back that adds. */
} Winograd;

SQUARE(inputs4_2d, inputs4, 4, 4, 0)
SQUARE(inputs4_back_2d, inputs4_back, 4, 4, 1)
SQUARE(inputs6_2d, inputs6, 6, 6, 0)
SQUARE(inputs6_back_2d, inputs6_back, 6, 6, 1)
#define FAST(m, r, n) \
    SQUARE(outputs##m##r##_2d, outputs##m##r, n, m, 0) \
    SQUARE(outputs##m##r##_back_2d, outputs##m##r##_back, m, n, 0) \
    SQUARE(filter##m##r##_2d, filter##m##r, r, n, 0) \
    SQUARE(filter##m##r##_back_2d, filter##m##r##_back, n, r, 0) \
    SQUARE(filter##m##r##_add_2d, filter##m##r##_back, n, r, 1) \
    static const Winograd fast##m##r = { \
        m, r, n, inputs##n##_2d, inputs##n##_back_2d, outputs##m##r##_2d, outputs##m##r##_back_2d, filter##m##r##_2d, \
        filter##m##r##_back_2d, filter##m##r##_add_2d};
FAST(2, 3, 4)
FAST(4, 3, 6)
FAST(2, 5, 6)
#undef FAST
#undef SQUARE

/* Squares that cover a side. */
INLINE i64 squares(const Winograd *f, i64 side) { return (side + f->m - 1) / f->m; }

/* The transform with the fewest products for a convolution; NULL where it would gain nothing. */
static const Winograd *fastest(i64 kernel, i64 stride, i64 oh, i64 ow) {
    static const Winograd *const known[] = {&fast23, &fast43, &fast25};
    const Winograd *best = NULL;
    i64 least = oh * ow * kernel * kernel * 3 / 4; /* the transforms cost something too */
    for (int i = 0; i < 3; i++) {
        const Winograd *f = known[i];
        const i64 products = squares(f, oh) * squares(f, ow) * f->n * f->n;
        if (f->r == kernel && stride == 1 && products < least) best = f, least = products;
    }
    return best;
}
