/* Forward and backward passes of the stages, over samples [0, count) of a workspace. */

INLINE void column_sums(const float *x, i64 rows, i64 cols, float *to, int add) {
    for (i64 j = 0; j < cols; j += PAD) {
        v8 sum = add ? load(to + j) : (v8){0};
        for (i64 i = 0; i < rows; i++) sum += load(x + i * cols + j);
        store(to + j, sum);
    }
}

/* The largest of 2 x 2, and which it was: the first of equals in the order of reading, as torch has it. */
INLINE v8 largest_of_four(const float *x, i64 row, i64 column, float *winner) {
    v8 best = load(x);
    m8 which = {0};
#pragma GCC unroll 3
    for (int i = 1; i < 4; i++) {
        v8 next = load(x + (i / 2) * row + (i % 2) * column);
        m8 wins = (next > best) | (next != next); /* NaN wins */
        best = choose(wins, next, best);
        which = (wins & i) | (~wins & which);
    }
    if (winner) store(winner, (v8)which);
    return best;
}

/* slope goes to the winner of the four, nothing to the others. */
INLINE void to_the_winner(v8 slope, const float *winner, float *x, i64 row, i64 column) {
    m8 which = (m8)load(winner);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        store(x + (i / 2) * row + (i % 2) * column, (v8)((m8)slope & (which == i)));
}

/* What follows a convolution, for channels first to first + width of one sample: from its output y [yh, yw, width] to
 * the next buffer. */
static void after_convolution(const Stage *s, const Buffer *out, const float *y, i64 first, i64 width,
                              const float *params, float *to, float *winner) {
    const i64 row = s->yw * width;
    for (i64 i = 0; i < out->h; i++)
        for (i64 j = 0; j < out->w; j++)
            for (i64 c = 0; c < width; c += PAD) {
                const i64 at = pixel(out, 0, i, j) + first + c;
                v8 x;
                if (s->l.pool)
                    x = largest_of_four(y + 2 * i * row + 2 * j * width + c, row, width, winner ? winner + at : NULL);
                else
                    x = load(y + i * row + j * width + c);
                if (s->bias >= 0) x += load(params + s->bias + first + c); /* the largest stays the largest */
                store(to + at, s->l.relu ? rectified(x) : x);
            }
}

/* And back: y [yh, yw, cols] becomes the derivative by the convolution's output. */
static void before_convolution(const Stage *s, const Buffer *out, const float *value, const float *slope,
                               const float *winner, float *y) {
    const i64 cols = s->cols, row = s->yw * cols, reach = s->l.pool ? 2 : 1;
    if (out->h * reach < s->yh || out->w * reach < s->yw) memset(y, 0, (size_t)(s->yh * row) * sizeof(float));
    for (i64 i = 0; i < out->h; i++)
        for (i64 j = 0; j < out->w; j++)
            for (i64 c = 0; c < cols; c += PAD) {
                const i64 at = pixel(out, 0, i, j) + c;
                v8 x = load(slope + at);
                if (s->l.relu) x = choose(load(value + at) <= 0.0f, (v8){0}, x);
                if (s->l.pool)
                    to_the_winner(x, winner + at, y + 2 * i * row + 2 * j * cols + c, row, cols);
                else
                    store(y + i * row + j * cols + c, x);
            }
}

/* y [oh, ow, out] of one sample: a row of the output is a product of overlapping patches and the weights. */
static void convolve(const Stage *s, const Buffer *in, const float *x, const float *params, float *y) {
    const Outline *l = &s->l;
    Product p = {.rows = l->ow, .columns = s->cols, .k = l->kernel * in->pitch, .segments = l->kernel};
    p.a_row = l->stride * in->pitch, p.a_step = 1, p.a_segment = in->cols * in->pitch;
    p.b = params + s->weight, p.b_step = s->cols, p.b_segment = p.k * s->cols;
    p.c_row = s->cols;
    for (i64 i = 0; i < l->oh; i++) {
        p.a = x + i * l->stride * in->cols * in->pitch;
        p.c = y + i * l->ow * s->cols;
        multiply(&p);
    }
}

/* The weights' gradient from one sample's x and the derivative by its y. */
static void convolve_weights(const Stage *s, const Buffer *in, const float *x, const float *y, float *grads, int add) {
    const Outline *l = &s->l;
    Product p = {.rows = l->kernel * in->pitch, .columns = s->cols, .k = l->ow, .segments = l->oh};
    p.a_row = 1, p.a_step = l->stride * in->pitch, p.a_segment = l->stride * in->cols * in->pitch;
    p.b = y, p.b_step = s->cols, p.b_segment = l->ow * s->cols;
    p.c_row = s->cols, p.add = add;
    for (i64 i = 0; i < l->kernel; i++) {
        p.a = x + i * in->cols * in->pitch;
        p.c = grads + s->weight + i * p.rows * s->cols;
        multiply(&p);
    }
}

/* The derivative by one sample's x: what each output's patch gets is added where the patch lies. */
static void convolve_back(const Stage *s, const Buffer *in, const float *y, const float *flipped, float *slope) {
    const Outline *l = &s->l;
    memset(slope, 0, (size_t)in->size * sizeof(float));
    Product p = {.rows = l->ow, .columns = l->kernel * in->pitch, .k = l->oc, .segments = 1};
    p.a_row = s->cols, p.a_step = 1, p.b_step = p.columns, p.c_row = l->stride * in->pitch, p.add = 1;
    for (i64 i = 0; i < l->oh; i++)
        for (i64 j = 0; j < l->kernel; j++) {
            p.a = y + i * l->ow * s->cols;
            p.b = flipped + j * s->cols * p.columns;
            p.c = slope + (i * l->stride + j) * in->cols * in->pitch;
            multiply(&p);
        }
}

/* Convolutions by Winograd's transforms: for each of the n * n points one product over all squares of some samples.
 * Transformed inputs and weights are made, used and dropped, a few samples and PANEL columns at a time: making them
 * again for the backward pass costs less than fetching them from memory. */

/* One product a point. */
INLINE void each_point(const Winograd *f, Product p, i64 a_plane, i64 b_plane, i64 c_plane) {
    for (i64 i = 0; i < f->n * f->n; i++, p.a += a_plane, p.b += b_plane, p.c += c_plane) multiply(&p);
}

/* Each square of a sample: its number, and its first output. */
#define SQUARES(s) \
    for (i64 square = 0, y = 0; y < (s)->yh; y += (s)->fast->m) \
        for (i64 x = 0; x < (s)->yw; x += (s)->fast->m, square++)

/* Samples k to k + some of the input, transformed. */
static void fast_points(const Chain *m, const Stage *s, const Buffer *in, i64 k, i64 some, float *w) {
    const i64 pitch = in->pitch;
    for (i64 i = 0; i < some; i++)
        SQUARES(s)
            s->fast->inputs(w + in->value + (k + i) * in->size + (y * in->cols + x) * pitch, in->cols * pitch, pitch,
                            w + m->points + (i * s->tiles + square) * pitch, s->fast->n * s->in_plane, s->in_plane,
                            pitch);
}

static void fast_forward(const Chain *m, const Stage *s, const Buffer *in, const Buffer *out, i64 k, i64 some, float *w,
                         const float *params, float *winner) {
    const Winograd *f = s->fast;
    const i64 n = f->n, pitch = in->pitch, cols = s->cols, tap = pitch * cols, rows = some * s->tiles;
    float *panel = w + m->panel, *block = w + m->block, *image = w + m->image;
    fast_points(m, s, in, k, some, w);
    for (i64 j = 0; j < cols; j += PANEL) {
        const i64 width = smaller(PANEL, cols - j), panel_plane = plane(pitch * width), block_plane = plane(rows * width);
        if (k == 0 || cols > PANEL) /* a single panel is still there from the samples before */
            for (i64 c = 0; c < pitch; c++)
                f->filter(params + s->weight + c * cols + j, f->r * tap, tap, panel + c * width, n * panel_plane,
                          panel_plane, width);
        Product p = {.rows = rows, .columns = width, .k = in->c, .segments = 1};
        p.a = w + m->points, p.a_row = pitch, p.a_step = 1, p.b = panel, p.b_step = width, p.c = block, p.c_row = width;
        each_point(f, p, s->in_plane, panel_plane, block_plane);
        for (i64 i = 0; i < some; i++) {
            SQUARES(s)
                f->outputs(block + (i * s->tiles + square) * width, n * block_plane, block_plane,
                           image + (y * s->yw + x) * width, s->yw * width, width, width);
            after_convolution(s, out, image, j, width, params, w + out->value + (k + i) * out->size,
                              winner ? winner + (k + i) * out->size : NULL);
        }
    }
}

/* The derivative by the output of samples k to k + some, transformed; and the bias' gradient. */
static void fast_slopes(const Chain *m, const Stage *s, const Buffer *out, i64 k, i64 some, float *w, float *grads) {
    float *image = w + m->image;
    for (i64 i = 0; i < some; i++) {
        const i64 at = (k + i) * out->size;
        before_convolution(s, out, w + out->value + at, w + out->slope + at, w + s->winner + at, image);
        if (s->bias >= 0) column_sums(image, s->yh * s->yw, s->cols, grads + s->bias, k + i > 0);
        SQUARES(s)
            s->fast->outputs_back(image + (y * s->yw + x) * s->cols, s->yw * s->cols, s->cols,
                                  w + m->slopes + (i * s->tiles + square) * s->cols, s->fast->n * s->out_plane,
                                  s->out_plane, s->cols);
    }
}

static void fast_weights(const Chain *m, const Stage *s, const Buffer *in, i64 k, i64 some, i64 count, float *w,
                         float *grads) {
    const Winograd *f = s->fast;
    const i64 n = f->n, pitch = in->pitch, cols = s->cols, tap = pitch * cols;
    const int one = cols <= PANEL; /* panel: transformed back after the last samples; else after each block of them */
    Square *back = one || k == 0 ? f->filter_back : f->filter_add;
    for (i64 j = 0; j < cols; j += PANEL) {
        const i64 width = smaller(PANEL, cols - j), panel_plane = plane(pitch * width);
        Product p = {.rows = pitch, .columns = width, .k = some * s->tiles, .segments = 1};
        p.a = w + m->points, p.a_row = 1, p.a_step = pitch, p.b = w + m->slopes + j, p.b_step = cols;
        p.c = w + m->panel, p.c_row = width, p.add = one && k > 0;
        each_point(f, p, s->in_plane, s->out_plane, panel_plane);
        for (i64 c = 0; c < pitch && (!one || k + some == count); c++)
            back(w + m->panel + c * width, n * panel_plane, panel_plane, grads + s->weight + c * cols + j, f->r * tap,
                 tap, width);
    }
}

static void fast_back(const Chain *m, const Stage *s, const Buffer *in, i64 k, i64 some, float *w, const float *params) {
    const Winograd *f = s->fast;
    const i64 n = f->n, pitch = in->pitch, cols = s->cols, outs = s->l.oc, rows = some * s->tiles;
    float *panel = w + m->panel_back, *block = w + m->block, *turned = w + m->turned;
    memset(w + in->slope + k * in->size, 0, (size_t)(some * in->size) * sizeof(float));
    for (i64 j = 0; j < pitch; j += PANEL) {
        const i64 width = smaller(PANEL, pitch - j), tap = outs * width;
        const i64 panel_plane = plane(outs * width), block_plane = plane(rows * width);
        if (k == 0 || pitch > PANEL) {
            for (i64 i = 0; i < f->r * f->r; i++)
                transpose(params + s->weight + (i * pitch + j) * cols, cols, turned + i * tap, width, width, outs);
            for (i64 c = 0; c < outs; c++)
                f->filter(turned + c * width, f->r * tap, tap, panel + c * width, n * panel_plane, panel_plane, width);
        }
        Product p = {.rows = rows, .columns = width, .k = outs, .segments = 1};
        p.a = w + m->slopes, p.a_row = cols, p.a_step = 1, p.b = panel, p.b_step = width, p.c = block, p.c_row = width;
        each_point(f, p, s->out_plane, panel_plane, block_plane);
        for (i64 i = 0; i < some; i++)
            SQUARES(s)
                f->inputs_back(block + (i * s->tiles + square) * width, n * block_plane, block_plane,
                               w + in->slope + (k + i) * in->size + (y * in->cols + x) * pitch + j, in->cols * pitch,
                               pitch, width);
    }
}

static void linear(const Stage *s, const Buffer *in, i64 count, const float *x, const float *params, float *y) {
    Product p = {.rows = count, .columns = s->cols, .k = in->size, .segments = 1};
    p.a = x, p.a_row = in->size, p.a_step = 1, p.b = params + s->weight, p.b_step = s->cols;
    p.c = y, p.c_row = s->cols, p.bias = s->bias >= 0 ? params + s->bias : NULL;
    multiply(&p);
}

static void linear_weights(const Stage *s, const Buffer *in, i64 count, const float *x, const float *y, float *grads) {
    Product p = {.rows = in->size, .columns = s->cols, .k = count, .segments = 1};
    p.a = x, p.a_row = 1, p.a_step = in->size, p.b = y, p.b_step = s->cols;
    p.c = grads + s->weight, p.c_row = s->cols;
    multiply(&p);
    if (s->bias >= 0) column_sums(y, count, s->cols, grads + s->bias, 0);
}

static void linear_back(const Stage *s, const Buffer *in, i64 count, const float *y, const float *flipped,
                        float *slope) {
    Product p = {.rows = count, .columns = in->size, .k = s->l.oc, .segments = 1};
    p.a = y, p.a_row = s->cols, p.a_step = 1, p.b = flipped, p.b_step = in->size;
    p.c = slope, p.c_row = in->size;
    multiply(&p);
}

/* The hash of rng.py. */
#define HASH_STEP 0x9E3779B97F4A7C15u
INLINE u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}
INLINE u64 absorb(u64 hash, u64 word) { return mix((hash ^ word) + HASH_STEP); }

/* mask of samples first to first + count of a lane's batch: scale where kept, else 0. A number's place in the draw is
 * its place in torch's layout [batch, channel, row, column]. */
static void draw_mask(const Outline *l, const Buffer *b, u64 key, i64 first, i64 count, float *mask) {
    const u64 hash = absorb(absorb(mix(key + HASH_STEP), (u64)l->number), (u64)l->call);
    const u64 threshold = (u64)l->threshold, plane = (u64)(b->h * b->w);
    const float scale = (float)l->scale;
    for (i64 n = 0; n < count; n++)
        for (i64 y = 0; y < b->h; y++)
            for (i64 x = 0; x < b->w; x++) {
                float *to = mask + pixel(b, n, y, x);
                const u64 at = (u64)(((first + n) * b->c * b->h + y) * b->w + x);
                for (i64 c = 0; c < b->pitch; c++) /* padding too: what it is multiplied with is zero */
                    to[c] = absorb(hash, at + (u64)c * plane) >> 40 >= threshold ? scale : 0.0f;
            }
}

/* Channels c to c + PAD of every pixel of two buffers of the same image: i in one, j in the other. */
#define EACH(one, other) \
    for (i64 n = 0; n < count; n++) \
        for (i64 y = 0; y < (one)->h; y++) \
            for (i64 x = 0; x < (one)->w; x++) \
                for (i64 c = 0, i = pixel(one, n, y, x), j = pixel(other, n, y, x); c < (one)->pitch; \
                     c += PAD, i += PAD, j += PAD)

/* The same image from one buffer to another. */
static void copy(const Buffer *one, const float *from, const Buffer *other, float *to, i64 count) {
    EACH(one, other) store(to + j, load(from + i));
}

static void forward(const Chain *m, float *w, const float *params, i64 first, i64 count, const u64 *key) {
    for (i64 k = 0; k < m->stages; k++) {
        const Stage *s = &m->stage[k];
        const Buffer *in = &m->buffer[k], *out = &m->buffer[k + 1];
        const float *from = w + in->value;
        float *to = w + out->value, *winner = m->grads >= 0 ? w + s->winner : NULL;
        if (s->fast) {
            for (i64 n = 0; n < count; n += s->some)
                fast_forward(m, s, in, out, n, smaller(s->some, count - n), w, params, winner);
        } else if (s->l.kind == CONV) {
            for (i64 n = 0; n < count; n++) {
                convolve(s, in, from + n * in->size, params, w + m->image);
                after_convolution(s, out, w + m->image, 0, s->cols, params, to + n * out->size,
                                  winner ? winner + n * out->size : NULL);
            }
        } else if (s->l.kind == LINEAR) {
            linear(s, in, count, from, params, to);
        } else if (s->l.kind == POOL) {
            for (i64 n = 0; n < count; n++)
                for (i64 y = 0; y < out->h; y++)
                    for (i64 x = 0; x < out->w; x++)
                        for (i64 c = 0; c < in->pitch; c += PAD) {
                            const i64 j = pixel(out, n, y, x) + c;
                            const float *four = from + pixel(in, n, 2 * y, 2 * x) + c;
                            store(to + j, largest_of_four(four, in->cols * in->pitch, in->pitch,
                                                          winner ? winner + j : NULL));
                        }
        } else if (s->l.kind == RELU) {
            EACH(in, out) store(to + j, rectified(load(from + i)));
        } else if (key) {
            draw_mask(&s->l, in, *key, first, count, w + s->mask);
            EACH(in, out) store(to + j, load(from + i) * load(w + s->mask + i));
        } else {
            copy(in, from, out, to, count);
        }
    }
}

/* From the derivative by the last buffer to the gradient. */
static void backward(const Chain *m, float *w, const float *params, const float *flipped, float *grads, i64 count) {
    for (i64 k = m->stages - 1; k >= 0; k--) {
        const Stage *s = &m->stage[k];
        const Buffer *in = &m->buffer[k], *out = &m->buffer[k + 1];
        const float *value = w + in->value, *from = w + out->slope, *back = flipped + s->flipped;
        float *to = in->slope >= 0 ? w + in->slope : NULL;
        if (s->fast) {
            for (i64 n = 0; n < count; n += s->some) {
                const i64 some = smaller(s->some, count - n);
                fast_points(m, s, in, n, some, w);
                fast_slopes(m, s, out, n, some, w, grads);
                fast_weights(m, s, in, n, some, count, w, grads);
                if (to) fast_back(m, s, in, n, some, w, params);
            }
        } else if (s->l.kind == CONV) {
            for (i64 n = 0; n < count; n++) {
                float *y = w + m->image;
                before_convolution(s, out, w + out->value + n * out->size, from + n * out->size,
                                   w + s->winner + n * out->size, y);
                if (s->bias >= 0) column_sums(y, s->yh * s->yw, s->cols, grads + s->bias, n > 0);
                convolve_weights(s, in, value + n * in->size, y, grads, n > 0);
                if (to) convolve_back(s, in, y, back, to + n * in->size);
            }
        } else if (s->l.kind == LINEAR) {
            linear_weights(s, in, count, value, from, grads);
            if (to) linear_back(s, in, count, from, back, to);
        } else if (!to) {
            return; /* nothing before this stage learns */
        } else if (s->l.kind == POOL) {
            if (in->h % 2 || in->w % 2) memset(to, 0, (size_t)(count * in->size) * sizeof(float));
            for (i64 n = 0; n < count; n++)
                for (i64 y = 0; y < out->h; y++)
                    for (i64 x = 0; x < out->w; x++)
                        for (i64 c = 0; c < in->pitch; c += PAD) {
                            const i64 j = pixel(out, n, y, x) + c;
                            to_the_winner(load(from + j), w + s->winner + j, to + pixel(in, n, 2 * y, 2 * x) + c,
                                          in->cols * in->pitch, in->pitch);
                        }
        } else if (s->l.kind == RELU) {
            EACH(in, out) store(to + i, choose(load(value + i) <= 0.0f, (v8){0}, load(from + j)));
        } else {
            EACH(in, out) store(to + i, load(from + j) * load(w + s->mask + i));
        }
    }
}

/* The last buffer's derivative: of the mean cross-entropy over samples of weight 1. share: 1 / their number. */
static void loss_slope(const Buffer *b, i64 count, const float *logits, const i64 *labels, const float *weight,
                       float share, float *slope) {
    for (i64 n = 0; n < count; n++) {
        const float *z = logits + n * b->size;
        float *to = slope + n * b->size, most = z[0];
        for (i64 c = 1; c < b->c; c++) most = z[c] > most ? z[c] : most;
        v8 sums = {0};
        for (i64 c = 0; c < b->pitch; c += PAD) {
            v8 x = exponential(load(z + c) - most);
            for (i64 i = b->c - c; i < PAD; i++) x[i] = 0.0f;
            sums += x;
            store(to + c, x);
        }
        const float scale = share * weight[n], each = scale / total(sums);
        for (i64 c = 0; c < b->pitch; c += PAD) store(to + c, load(to + c) * each);
        to[labels[n]] -= scale;
    }
}
