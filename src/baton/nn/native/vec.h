/* Vectors, and small things done with them. Channels and columns are padded to PAD floats everywhere inside. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PAD 8
#define INLINE static inline __attribute__((always_inline))

typedef int64_t i64;
typedef uint64_t u64;
/* aligned(4): a vector may lie at any float. */
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t m8 __attribute__((vector_size(32), aligned(4), may_alias));

INLINE i64 padded(i64 n) { return (n + PAD - 1) / PAD * PAD; }
INLINE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 larger(i64 a, i64 b) { return a > b ? a : b; }
INLINE v8 load(const float *p) { return *(const v8 *)p; }
INLINE void store(float *p, v8 x) { *(v8 *)p = x; }
INLINE v8 choose(m8 mask, v8 yes, v8 no) { return (v8)((mask & (m8)yes) | (~mask & (m8)no)); }

INLINE float total(v8 x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

/* 0 where x is negative; NaN stays. */
INLINE v8 rectified(v8 x) { return choose(x < 0.0f, (v8){0}, x); }

/* e^x for x <= 0 to 2 units in the last place; NaN stays. Nothing below e^-80: what is made of it would soon be too
 * small for a normal float, and some processors are very slow at such numbers. */
INLINE v8 exponential(v8 x) {
    const m8 tiny = x < -80.0f;
    const v8 magic = (v8){0} + 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    v8 whole = (x * 1.44269504f + magic) - magic;
    v8 rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    v8 poly = (v8){0} + 1.9875691500e-4f;
    poly = poly * rest + 1.3981999507e-3f;
    poly = poly * rest + 8.3334519073e-3f;
    poly = poly * rest + 4.1665795894e-2f;
    poly = poly * rest + 1.6666665459e-1f;
    poly = poly * rest + 5.0000001201e-1f;
    poly = poly * rest * rest + rest + 1.0f;
    m8 low = (m8)(whole + magic) & 511; /* the low bits of the whole number, which is at least -116 */
    return choose(tiny, (v8){0}, poly * (v8)(((low + 127) & 255) << 23));
}

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else /* gcc has that only since version 12 */
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (m8){__VA_ARGS__})
#endif

/* to[j][i] = from[i][j], 8 x 8. */
INLINE void transpose8(const float *from, i64 from_row, float *to, i64 to_row) {
    v8 a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = load(from + i * from_row);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        b[i] = SHUFFLE(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[i + 1] = SHUFFLE(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = SHUFFLE(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 2 * j + 1] = SHUFFLE(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        store(to + i * to_row, SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        store(to + (i + 4) * to_row, SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

/* to[j][i] = from[i][j] for rows x columns of from. */
static void transpose(const float *from, i64 from_row, float *to, i64 to_row, i64 rows, i64 columns) {
    i64 i = 0;
    for (; i + 8 <= rows; i += 8) {
        i64 j = 0;
        for (; j + 8 <= columns; j += 8) transpose8(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
        for (; j < columns; j++)
            for (i64 k = i; k < i + 8; k++) to[j * to_row + k] = from[k * from_row + j];
    }
    for (; i < rows; i++)
        for (i64 j = 0; j < columns; j++) to[j * to_row + i] = from[i * from_row + j];
}
