/* What a model is: a chain of stages between buffers of samples, or two chains where it is cut: the client's and the
 * server's. Images lie channels last, [height, width, channels], with a border of zeros for the convolution that reads
 * them; rows of numbers are images of one pixel. */

enum { CONV, LINEAR, POOL, RELU, DROPOUT };

/* A stage as Python hands it over (structs.py): sizes without padding. */
typedef struct {
    i64 kind;
    i64 side;       /* 1: behind the cut */
    i64 c, h, w;    /* what comes in */
    i64 oc, oh, ow; /* what a convolution or linear layer makes of it, before pooling */
    i64 kernel, stride, padding;
    i64 relu, pool;   /* a convolution's: what follows it */
    i64 weight, bias; /* places in the list of parameters; bias -1: none */
    i64 threshold;    /* dropout: keep where 24 random bits are at least this */
    i64 number, call; /* dropout: words of its draws */
    double scale;     /* dropout: of what is kept */
} Outline;

/* A buffer of samples. */
typedef struct {
    i64 c, h, w;
    i64 pitch;      /* floats from pixel to pixel */
    i64 border;     /* pixels above and left of the image */
    i64 rows, cols; /* with borders */
    i64 size;       /* floats a sample */
    i64 value;      /* place in the workspace */
    i64 slope;      /* place of the loss' derivative by it; -1: not wanted */
} Buffer;

/* A stage as it is laid out. */
typedef struct {
    Outline l;
    i64 rows, cols;   /* of the weights as they are kept: cols = padded outputs */
    i64 weight, bias; /* place in the lane's parameters; bias -1: none */
    i64 flipped;      /* place of the transposed weights in the workspace; -1: not wanted */
    i64 winner;       /* pooling: place of which of the four was the largest */
    i64 mask;         /* dropout: place of 0 or scale */
    i64 yh, yw;       /* a convolution's output in scratch: oh and ow, or as many whole squares as cover them */
    const Winograd *fast;    /* NULL: direct */
    i64 tiles, some;         /* squares of a sample, and samples to transform at once */
    i64 in_plane, out_plane; /* floats from point to point of the transformed input, and of the derivative */
} Stage;

/* A chain, and what it takes of a thread's workspace. */
typedef struct {
    i64 stages, classes;
    i64 behind; /* a cut: what comes in is another chain's output, and the loss' derivative by it is wanted */
    Stage *stage;
    Buffer *buffer; /* stages + 1: stage i reads buffer i and fills buffer i + 1 */
    i64 parameters; /* floats of one lane */
    /* Places in the workspace. */
    i64 begin, end;                /* all of it is between these */
    i64 zeros;                     /* and what must be zero at first, borders and padding, before this one */
    i64 params, grads;             /* grads -1: evaluation */
    i64 anchor, shift, velocity, square; /* as the parameters; -1: no step has that term */
    i64 labels;                    /* of the samples, as i64 */
    i64 image;                     /* one convolution's output for one sample, or the derivative by it */
    i64 points, slopes;            /* some samples' input and the derivative by their output, transformed */
    i64 block;                     /* products of these with */
    i64 panel, panel_back, turned; /* PANEL columns of transformed weights, and of transposed ones */
} Chain;

enum {
    PANEL = 32, /* columns of transformed weights at a time */
    TILES = 48, /* squares at a time, at least: so that transforming the weights is little beside them */
};

/* Whole cache lines. */
static i64 place(i64 *next, i64 size) {
    i64 here = *next;
    *next += (size + 15) / 16 * 16;
    return here;
}

/* The floats of one point of a transform, in an odd number of cache lines: a power of two would make all points of a
 * square fall on each other in the cache. */
static i64 plane(i64 floats) { return ((floats + 15) / 16 | 1) * 16; }

/* Whether stage i reads samples. */
INLINE int reads_samples(const Chain *m, i64 i) { return i == 0 && !m->behind; }

/* How a stage convolves. Samples have too few channels for a transform to pay. */
static const Winograd *fast_for(const Outline *l, int samples) {
    return l->kind == CONV && !samples ? fastest(l->kernel, l->stride, l->oh, l->ow) : NULL;
}

INLINE int has_weights(const Outline *l) { return l->kind == CONV || l->kind == LINEAR; }

/* The shapes of buffers. */
static void lay_out_buffers(Chain *m, const Outline *outlines, i64 batch, i64 *next) {
    for (i64 i = 0; i <= m->stages; i++) {
        Buffer *b = &m->buffer[i];
        const Outline *l = &outlines[smaller(i, m->stages - 1)];
        const Winograd *f = NULL;
        if (i < m->stages) {
            b->c = l->c, b->h = l->h, b->w = l->w;
            b->border = l->kind == CONV ? l->padding : 0;
            f = fast_for(l, reads_samples(m, i));
        } else {
            const i64 window = l->pool || l->kind == POOL ? 2 : 1;
            b->c = l->oc, b->h = l->oh / window, b->w = l->ow / window;
        }
        /* one or three channels are not worth padding */
        b->pitch = reads_samples(m, i) && has_weights(l) ? b->c : padded(b->c);
        b->rows = b->h + 2 * b->border, b->cols = b->w + 2 * b->border;
        if (f) { /* the last squares may reach beyond the image */
            b->rows = larger(b->rows, squares(f, l->oh) * f->m + f->r - 1);
            b->cols = larger(b->cols, squares(f, l->ow) * f->m + f->r - 1);
        }
        b->size = b->rows * b->cols * b->pitch;
        b->value = place(next, batch * b->size);
    }
}

/* Weights one after another without gaps. */
static void lay_out_weights(Chain *m, const Outline *outlines, i64 *next) {
    for (i64 i = 0; i < m->stages; i++) {
        Stage *s = &m->stage[i];
        const Buffer *in = &m->buffer[i];
        s->l = outlines[i];
        s->bias = -1;
        if (!has_weights(&s->l)) continue;
        s->rows = s->l.kind == CONV ? s->l.kernel * s->l.kernel * in->pitch : in->size;
        s->cols = padded(s->l.oc);
        s->weight = m->parameters, m->parameters += s->rows * s->cols;
        if (s->l.bias >= 0) s->bias = m->parameters, m->parameters += s->cols;
    }
    m->parameters = (m->parameters + 15) / 16 * 16;
    m->params = place(next, m->parameters);
}

/* The workspace for `batch` samples at once, from `begin` on. learning: with what the backward pass needs. */
static void lay_out(Chain *m, const Outline *outlines, i64 batch, int learning) {
    i64 next = m->begin, image = 0, points = 0, slopes = 0, panel = 0, turned = 0, block = 0;
    m->classes = outlines[m->stages - 1].oc;
    lay_out_buffers(m, outlines, batch, &next);
    lay_out_weights(m, outlines, &next);
    m->zeros = next;
    m->grads = learning ? place(&next, m->parameters) : -1;
    for (i64 i = 0; i < m->stages; i++) {
        Stage *s = &m->stage[i];
        const Buffer *in = &m->buffer[i], *out = &m->buffer[i + 1];
        const int back = learning && !reads_samples(m, i);
        m->buffer[i].slope = back ? place(&next, batch * in->size) : -1;
        s->flipped = -1;
        const Winograd *f = s->fast = fast_for(&s->l, reads_samples(m, i));
        if (f) {
            const i64 h = squares(f, s->l.oh), w = squares(f, s->l.ow), n2 = f->n * f->n;
            s->tiles = h * w, s->yh = h * f->m, s->yw = w * f->m;
            const i64 blocks = larger(1, batch * s->tiles / TILES);
            s->some = (batch + blocks - 1) / blocks;
            const i64 tiles = s->some * s->tiles;
            s->in_plane = plane(tiles * in->pitch), s->out_plane = plane(tiles * s->cols);
            points = larger(points, n2 * s->in_plane), slopes = larger(slopes, n2 * s->out_plane);
            block = larger(block, n2 * plane(tiles * PANEL));
            panel = larger(panel, n2 * plane(larger(in->pitch, s->cols) * PANEL));
            turned = larger(turned, f->r * f->r * s->cols * PANEL);
        } else {
            s->yh = s->l.oh, s->yw = s->l.ow;
            if (has_weights(&s->l) && back) s->flipped = place(&next, s->rows * s->cols);
        }
        if (s->l.kind == CONV) image = larger(image, s->yh * s->yw * s->cols);
        if (learning && (s->l.pool || s->l.kind == POOL)) s->winner = place(&next, batch * out->size);
        if (learning && s->l.kind == DROPOUT) s->mask = place(&next, batch * in->size);
    }
    Buffer *last = &m->buffer[m->stages];
    last->slope = learning ? place(&next, batch * last->size) : -1;
    m->image = place(&next, image);
    m->points = place(&next, points);
    m->block = place(&next, block);
    m->panel = place(&next, panel);
    if (learning) {
        m->slopes = place(&next, slopes);
        m->panel_back = place(&next, panel);
        m->turned = place(&next, turned);
    }
    m->labels = place(&next, 2 * batch);
    m->end = next;
}

/* Where a pixel's channels lie in a buffer. */
INLINE i64 pixel(const Buffer *b, i64 sample, i64 y, i64 x) {
    return sample * b->size + ((y + b->border) * b->cols + x + b->border) * b->pitch;
}

/* A lane's parameters between torch's layouts and ours. Ours: conv [row, column, in, out], linear [in, out], where the
 * inputs of a linear layer stand in the order of the image that was flattened. */
static void pack(const Chain *m, float *const *leaves, const i64 *sizes, i64 lane, float *to) {
    for (i64 i = 0; i < m->stages; i++) {
        const Stage *s = &m->stage[i];
        const Outline *l = &s->l;
        if (!has_weights(l)) continue;
        const i64 places = l->kind == CONV ? l->kernel * l->kernel : l->h * l->w, pitch = m->buffer[i].pitch;
        const float *from = leaves[l->weight] + lane * sizes[l->weight];
        /* Padding is zero: a lane before this one may have left the finite numbers, there too. */
        if (s->cols > l->oc || pitch > l->c) memset(to + s->weight, 0, (size_t)(s->rows * s->cols) * sizeof(float));
        if (s->bias >= 0) memset(to + s->bias, 0, (size_t)s->cols * sizeof(float));
        if (places == 1)
            transpose(from, l->c, to + s->weight, s->cols, l->oc, l->c);
        else
            for (i64 o = 0; o < l->oc; o += 32) /* some outputs at a time: reads and writes both stay on few lines */
                for (i64 c = 0; c < l->c; c++)
                    transpose(from + (o * l->c + c) * places, l->c * places, to + s->weight + c * s->cols + o,
                              pitch * s->cols, smaller(32, l->oc - o), places);
        if (s->bias >= 0)
            memcpy(to + s->bias, leaves[l->bias] + lane * sizes[l->bias], (size_t)l->oc * sizeof(float));
    }
}

static void unpack(const Chain *m, const float *from, float *const *leaves, const i64 *sizes, i64 lane) {
    for (i64 i = 0; i < m->stages; i++) {
        const Stage *s = &m->stage[i];
        const Outline *l = &s->l;
        if (!has_weights(l)) continue;
        const i64 places = l->kind == CONV ? l->kernel * l->kernel : l->h * l->w, pitch = m->buffer[i].pitch;
        float *to = leaves[l->weight] + lane * sizes[l->weight];
        if (places == 1)
            transpose(from + s->weight, s->cols, to, l->c, l->c, l->oc);
        else
            for (i64 o = 0; o < l->oc; o += 32)
                for (i64 c = 0; c < l->c; c++)
                    transpose(from + s->weight + c * s->cols + o, pitch * s->cols, to + (o * l->c + c) * places,
                              l->c * places, places, smaller(32, l->oc - o));
        if (s->bias >= 0)
            memcpy(leaves[l->bias] + lane * sizes[l->bias], from + s->bias, (size_t)l->oc * sizeof(float));
    }
}
