/* C = A B, small and unpacked: the operands of one step of one lane lie in the caches as they are, so copying them into
 * panels, as a general library does, costs more than it gains. */

/* C[i][j] (+)= bias[j] + sum over segments s and k of A[s][i][k] B[s][k][j]. Either a row of A is contiguous
 * (a_step = 1, rows a_row apart) or a column is (a_row = 1, columns a_step apart). Rows of A may overlap: an image's
 * patches are such rows. Rows of C may overlap when added to. Columns are padded to PAD. */
typedef struct {
    i64 rows, columns, k, segments;
    const float *a;
    i64 a_row, a_step, a_segment;
    const float *b;
    i64 b_step, b_segment;
    float *c;
    i64 c_row;
    const float *bias; /* or NULL */
    int add;
} Product;

#if defined(__AVX512F__)
#define ROWS 14
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
#define NAME panel32
#define VEC v16
#define VECS 2
#include "tile.h"
#define NAME panel16
#define VEC v16
#define VECS 1
#include "tile.h"
#define NAME panel8
#define VEC v8
#define VECS 1
#include "tile.h"
#elif defined(__AVX__)
#define ROWS 6
#define NAME panel16
#define VEC v8
#define VECS 2
#include "tile.h"
#define NAME panel8
#define VEC v8
#define VECS 1
#include "tile.h"
#else
#define ROWS 6
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
#define NAME panel8
#define VEC v4
#define VECS 2
#include "tile.h"
#endif

static void multiply(const Product *p) {
    i64 j = 0;
#define PANELS(width, panel) \
    for (; j + width <= p->columns; j += width) panel(p, p->b + j, p->c + j, p->bias ? p->bias + j : NULL);
#if defined(__AVX512F__)
    PANELS(32, panel32)
#endif
#if defined(__AVX__)
    PANELS(16, panel16)
#endif
    PANELS(8, panel8)
#undef PANELS
}
