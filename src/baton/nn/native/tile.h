/* One panel of columns of a product, up to ROWS rows of it held in registers. Included once for each width of panel:
 * VEC the vector, VECS how many of them side by side, NAME the functions' prefix. */

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define BODY GLUE(NAME, _body)

/* rows and across are constants at each call: across = 0, a row of A is contiguous; 1, a column of it is. */
INLINE void BODY(const int rows, const int across, const Product *p, const float *a, const float *b, float *c,
                 const float *bias) {
    VEC sum[ROWS][VECS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++) sum[i][v] = bias ? ((const VEC *)bias)[v] : (VEC){0};
    const i64 row = p->a_row, step = p->a_step, b_step = p->b_step;
    for (i64 segment = 0; segment < p->segments; segment++) {
        /* Four pointers and offsets of 0 to 3 rows: more would not fit the registers. */
        const float *a0 = a + segment * p->a_segment, *a1 = a0 + 4 * row, *a2 = a0 + 8 * row, *a3 = a0 + 12 * row;
        const float *from = b + segment * p->b_segment;
        for (i64 k = 0; k < p->k; k++, from += b_step) {
            VEC x[VECS];
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) x[v] = ((const VEC *)from)[v];
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const float *at = i < 4 ? a0 : i < 8 ? a1 : i < 12 ? a2 : a3;
                const float value = across ? a0[i] : at[(i & 3) * row];
#pragma GCC unroll 4
                for (int v = 0; v < VECS; v++) sum[i][v] += value * x[v];
            }
            a0 += across ? step : 1, a1++, a2++, a3++;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++) {
            VEC *to = (VEC *)(c + i * p->c_row) + v;
            if (p->add) sum[i][v] += *to; /* row after row: rows of C may overlap */
            *to = sum[i][v];
        }
}

#define CASE(n) \
    case n: \
        BODY(n, across, p, a, b, c, bias); \
        break;

INLINE void GLUE(NAME, _rows)(i64 rows, const int across, const Product *p, const float *a, const float *b, float *c,
                              const float *bias) {
    switch (rows) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if ROWS > 6
        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#endif
    }
}

/* All rows of the panel in blocks of about the same height. */
static void NAME(const Product *p, const float *b, float *c, const float *bias) {
    i64 blocks = (p->rows + ROWS - 1) / ROWS;
    for (i64 block = 0; block < blocks; block++) {
        i64 from = block * p->rows / blocks, to = (block + 1) * p->rows / blocks;
        if (p->a_step == 1)
            GLUE(NAME, _rows)(to - from, 0, p, p->a + from * p->a_row, b, c + from * p->c_row, bias);
        else
            GLUE(NAME, _rows)(to - from, 1, p, p->a + from, b, c + from * p->c_row, bias);
    }
}

#undef CASE
#undef BODY
#undef GLUE
#undef GLUE_
#undef NAME
#undef VEC
#undef VECS
