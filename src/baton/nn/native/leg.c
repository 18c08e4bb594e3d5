/* One client's K local steps, for all lanes: gather, forward, backward, clip, step. Lanes are spread over threads; a
 * lane does all its steps before the next, so that its weights stay in the core's cache. Lanes that are left over are
 * split by samples instead, between threads that meet at a barrier. A leg has one chain of stages, or in split form
 * two: then the first one's output is copied into the second, and the loss' derivative by it back. */

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "vec.h"
#include "product.h"
#include "transforms.h"
#include "stage.h"
#include "layers.h"

enum { FINE, NO_SPACE, NO_MEMORY, BAD_INDEX };

/* The samples of all lanes, as torch keeps them: [samples, planes, plane]. */
typedef struct {
    const void *x;
    i64 bytes; /* 1: uint8, normalised by scale and shift; 0: float32 */
    const i64 *y;
    i64 samples, planes, plane;
    const float *scale, *shift; /* a plane */
} Pool;

typedef struct {
    const Outline *outlines;
    i64 stages;
    Pool pool;
    float *const *params, *const *results; /* [lanes / repeat, ...] and [lanes, ...] a leaf */
    const i64 *sizes;                      /* floats a lane of each leaf */
    i64 lanes, steps, batch;
    i64 repeat;                     /* lanes in a row that start from the same parameters */
    const float *lr, *clip, *decay; /* [lanes] */
    const float *momentum, *pull;   /* [lanes], or NULL, as the shift; with a pull there is an anchor */
    float *const *anchor, *const *shift; /* [lanes / anchor_repeat, ...] and [lanes / shift_repeat, ...] a leaf */
    i64 anchor_repeat, shift_repeat;
    float *const *velocity;         /* [lanes, ...] a leaf, read and written over; NULL: 0 at first, and not kept */
    float *const *direction;        /* [lanes, ...] a leaf, written: (start - end) inverse - shift; may be the shift */
    const float *inverse;           /* [lanes], where there is a direction */
    float *const *square;           /* [lanes, ...] a leaf, or NULL; written: the mean of d^2 over the steps, which then
                                     * stand still: all d are taken at the start, and lr times their sum is one step */
    i64 apart;                      /* each side clips by its own norm, not by that of both */
    const i64 *places;              /* [lanes, steps, batch]; evaluation: [lanes or 1, batch] */
    const float *weight;            /* [lanes, steps, batch] */
    const i64 *key;                 /* [lanes, steps] */
    i64 shared;                     /* evaluation: all lanes read the same places */
    i64 block;                      /* samples a thread takes at once */
    i64 threads, split;             /* split: left-over lanes are shared between threads */
    float *logits;                  /* evaluation: [lanes, batch, classes]; NULL: a leg */
    float *space;                   /* the threads' workspaces */
    i64 floats;                     /* in there */
} Job;

/* What structs.py mirrors: the size of each struct, and where its last field is. */
const i64 baton_structs[] = {
    sizeof(Outline), offsetof(Outline, scale), sizeof(Pool), offsetof(Pool, shift), sizeof(Job), offsetof(Job, floats),
};

enum { SIDES = 2 };

typedef struct {
    const Job *job;
    Chain side[SIDES];
    i64 sides;
    i64 threads;                /* that could be started */
    atomic_llong next;          /* lane that no thread has taken yet */
    atomic_int status;
    pthread_mutex_t gate;       /* held until `threads` is known */
    pthread_barrier_t *barrier; /* one a team */
    double (*square)[SIDES];    /* one a thread: its part of the squared norm of each side's gradient */
} Run;

#define EACH_SIDE(r, m) for (const Chain *m = (r)->side; m < (r)->side + (r)->sides; m++)

typedef struct {
    Run *run;
    i64 index;
} Worker;

INLINE const Chain *last_side(const Run *r) { return &r->side[r->sides - 1]; }
INLINE const Buffer *last_buffer(const Chain *m) { return &m->buffer[m->stages]; }
INLINE float *workspace(const Run *r, i64 thread) { return r->job->space + thread * last_side(r)->end; }

/* The samples at places[0..count) into the first buffer. */
static int gather(const Pool *pool, const Buffer *b, const i64 *places, i64 count, float *to) {
    const int flat = b->h * b->w == 1;
    for (i64 n = 0; n < count; n++, to += b->size) {
        if (places[n] < 0 || places[n] >= pool->samples) return BAD_INDEX;
        for (i64 c = 0; c < pool->planes; c++) {
            const i64 at = (places[n] * pool->planes + c) * pool->plane;
            const float *numbers = (const float *)pool->x + (pool->bytes ? 0 : at);
            const uint8_t *bytes = (const uint8_t *)pool->x + (pool->bytes ? at : 0);
            const float scale = pool->scale[c], shift = pool->shift[c];
            const i64 rows = flat ? 1 : b->h, width = flat ? pool->plane : b->w, pitch = flat ? 1 : b->pitch;
            for (i64 y = 0; y < rows; y++) {
                float *row = to + pixel(b, 0, y, 0) + (flat ? c * pool->plane : c);
                if (pool->bytes && pitch == 1)
                    for (i64 x = 0; x < width; x++) row[x] = (float)bytes[y * width + x] * scale + shift;
                else if (pool->bytes)
                    for (i64 x = 0; x < width; x++) row[x * pitch] = (float)bytes[y * width + x] * scale + shift;
                else
                    for (i64 x = 0; x < width; x++) row[x * pitch] = numbers[y * width + x];
            }
        }
    }
    return FINE;
}

/* Samples that were gathered, through all stages; what crosses a cut is copied. lane: where its parameters are. */
static void all_forward(const Run *r, float *w, const float *lane, i64 first, i64 count, const u64 *key) {
    EACH_SIDE(r, m) {
        const Buffer *in = m->buffer, *sent = m->behind ? last_buffer(m - 1) : NULL;
        if (sent) copy(sent, w + sent->value, in, w + in->value, count);
        forward(m, w, lane + m->params, first, count, key);
    }
}

/* And back, from the derivative by the last buffer. */
static void all_backward(const Run *r, float *w, const float *lane, i64 count) {
    for (i64 s = r->sides - 1; s >= 0; s--) {
        const Chain *m = &r->side[s];
        const Buffer *in = m->buffer, *sent = m->behind ? last_buffer(m - 1) : NULL;
        backward(m, w, lane + m->params, lane, w + m->grads, count);
        if (sent) copy(in, w + in->slope, sent, w + sent->slope, count);
    }
}

/* Weights in the other order, for the derivative by a layer's input: this thread's part of them. */
static void derive(const Chain *m, float *w, i64 part, i64 parts) {
    const float *params = w + m->params;
    for (i64 k = 0; k < m->stages; k++) {
        const Stage *s = &m->stage[k];
        if (s->flipped < 0) continue;
        const i64 blocks = s->l.kind == CONV ? s->l.kernel : 1, rows = s->rows / blocks;
        const i64 from = rows * part / parts, to = rows * (part + 1) / parts;
        for (i64 i = 0; i < blocks; i++)
            transpose(params + s->weight + (i * rows + from) * s->cols, s->cols,
                      w + s->flipped + i * rows * s->cols + from, rows, to - from, s->cols);
    }
}

static double squared(const float *x, i64 from, i64 to) {
    double sum = 0.0;
    while (from < to) {
        const i64 end = smaller(to, from + 4096); /* short sums in float, long ones in double */
        v8 part[2] = {{0}, {0}};
        for (; from < end; from += 2 * PAD)
            for (int i = 0; i < 2; i++) {
                v8 g = load(x + from + i * PAD);
                part[i] += g * g;
            }
        sum += (double)total(part[0] + part[1]);
    }
    return sum;
}

/* Adds the team's gradients in [from, to) into the first one's. */
static void gather_gradients(const Run *r, i64 grads, i64 leader, i64 team, i64 from, i64 to) {
    float *mine = workspace(r, leader) + grads;
    for (i64 t = leader + 1; t < leader + team; t++) {
        const float *theirs = workspace(r, t) + grads;
        for (i64 i = from; i < to; i++) mine[i] += theirs[i];
    }
}

/* What each side's gradient is multiplied with. */
static void clip_scales(const Run *r, i64 leader, i64 team, float clip, float *scale) {
    double square[SIDES] = {0.0};
    const i64 apart = r->job->apart;
    for (i64 t = leader; t < leader + team; t++)
        for (i64 s = 0; s < r->sides; s++) square[apart * s] += r->square[t][s];
    for (i64 s = 0; s < r->sides; s++) {
        scale[s] = clip / ((float)sqrt(square[apart * s]) + 1e-6f);
        if (scale[s] > 1.0f) scale[s] = 1.0f; /* NaN stays */
    }
}

static void update(float *x, const float *g, i64 from, i64 to, float lr, float scale, float decay) {
    for (i64 i = from; i < to; i++) x[i] -= lr * (scale * g[i] + decay * x[i]);
}

/* The same with those terms that the job has: d = scale g + decay x + pull (x - anchor) + shift; v = momentum v + d;
 * x -= lr v. */
static void update_more(const Chain *m, float *w, i64 from, i64 to, float lr, float scale, float decay, float pull,
                        float momentum) {
    float *x = w + m->params, *velocity = m->velocity >= 0 ? w + m->velocity : NULL;
    const float *g = w + m->grads, *anchor = m->anchor >= 0 ? w + m->anchor : NULL;
    const float *shift = m->shift >= 0 ? w + m->shift : NULL;
    float *square = m->square >= 0 ? w + m->square : NULL;
    for (i64 i = from; i < to; i += PAD) {
        const v8 now = load(x + i);
        v8 d = scale * load(g + i) + decay * now;
        if (anchor) d += pull * (now - load(anchor + i));
        if (shift) d += load(shift + i);
        if (square) {
            store(velocity + i, load(velocity + i) + d), store(square + i, load(square + i) + d * d);
            continue;
        }
        if (velocity) store(velocity + i, d += momentum * load(velocity + i));
        store(x + i, now - lr * d);
    }
}

/* Where a thread's part of a chain's parameters begins: whole vectors, `parameters` being a multiple of 16. */
INLINE i64 share(const Chain *m, i64 part, i64 parts) { return m->parameters / 16 * part / parts * 16; }

/* What a lane's leg starts from, into the workspace w. */
static void begin(const Run *r, i64 lane, float *w) {
    const Job *job = r->job;
    EACH_SIDE(r, m) {
        pack(m, job->params, job->sizes, lane / job->repeat, w + m->params);
        if (job->anchor) pack(m, job->anchor, job->sizes, lane / job->anchor_repeat, w + m->anchor);
        if (job->shift) pack(m, job->shift, job->sizes, lane / job->shift_repeat, w + m->shift);
        if (job->velocity)
            pack(m, job->velocity, job->sizes, lane, w + m->velocity);
        else if (job->momentum || job->square)
            memset(w + m->velocity, 0, (size_t)m->parameters * sizeof(float));
        if (job->square) memset(w + m->square, 0, (size_t)m->parameters * sizeof(float));
    }
}

/* The one step of a leg that stood still, after so many gradients. */
static void move_once(const Run *r, float *w, float lr, i64 taken) {
    EACH_SIDE(r, m) {
        float *x = w + m->params, *square = w + m->square;
        const float *sum = w + m->velocity, each = 1.0f / (float)(taken > 1 ? taken : 1);
        for (i64 i = 0; i < m->parameters; i++) x[i] -= lr * sum[i], square[i] *= each;
    }
}

/* One leaf's mean direction: what moved the lane, but for the shift. */
static void tell(const Job *job, i64 leaf, i64 lane) {
    const i64 size = job->sizes[leaf];
    const float *from = job->params[leaf] + lane / job->repeat * size, *to = job->results[leaf] + lane * size;
    const float *shift = job->shift ? job->shift[leaf] + lane / job->shift_repeat * size : NULL;
    float *direction = job->direction[leaf] + lane * size;
    const float inverse = job->inverse[lane];
    if (shift)
        for (i64 i = 0; i < size; i++) direction[i] = (from[i] - to[i]) * inverse - shift[i];
    else
        for (i64 i = 0; i < size; i++) direction[i] = (from[i] - to[i]) * inverse;
}

/* And what it made of that. */
static void end(const Run *r, i64 lane, const float *w) {
    const Job *job = r->job;
    EACH_SIDE(r, m) {
        unpack(m, w + m->params, job->results, job->sizes, lane);
        if (job->velocity) unpack(m, w + m->velocity, job->velocity, job->sizes, lane);
        if (job->square) unpack(m, w + m->square, job->square, job->sizes, lane);
        for (i64 i = 0; job->direction && i < m->stages; i++) {
            const Outline *l = &m->stage[i].l;
            if (has_weights(l)) tell(job, l->weight, lane);
            if (has_weights(l) && l->bias >= 0) tell(job, l->bias, lane);
        }
    }
}

/* All steps of a lane, by thread `leader + part` of a team of `parts`. */
static void leg(Run *r, i64 lane, i64 leader, i64 part, i64 parts, pthread_barrier_t *barrier) {
    const Job *job = r->job;
    const Chain *tail = last_side(r);
    const Buffer *in = r->side->buffer, *out = last_buffer(tail);
    float *w = workspace(r, leader + part), *first = workspace(r, leader);
    const float lr = job->lr[lane], clip = job->clip[lane], decay = job->decay[lane];
    const i64 sample = job->batch * part / parts, count = job->batch * (part + 1) / parts - sample;
    const float pull = job->pull ? job->pull[lane] : 0.0f, momentum = job->momentum ? job->momentum[lane] : 0.0f;
    const int plain = !job->pull && !job->shift && !job->momentum && !job->square;
    i64 taken = 0;
    if (part == 0) begin(r, lane, first);
    if (barrier) pthread_barrier_wait(barrier);
    i64 *labels = (i64 *)(void *)(w + tail->labels);
    for (i64 k = 0; k < job->steps && (lr != 0.0f || job->square); k++) { /* a gradient does not depend on lr */
        const i64 at = (lane * job->steps + k) * job->batch;
        const float *weight = job->weight + at;
        const u64 key = (u64)job->key[lane * job->steps + k];
        float samples = 0.0f;
        for (i64 n = 0; n < job->batch; n++) samples += weight[n];
        if (samples == 0.0f) continue; /* tau_m steps are done */
        taken++;
        EACH_SIDE(r, m) derive(m, first, part, parts);
        if (barrier) pthread_barrier_wait(barrier);
        int status = gather(&job->pool, in, job->places + at + sample, count, w + in->value);
        for (i64 n = 0; n < count && !status; n++) {
            labels[n] = job->pool.y[job->places[at + sample + n]];
            if (labels[n] < 0 || labels[n] >= tail->classes) status = BAD_INDEX;
        }
        if (status) {
            atomic_store(&r->status, status);
        } else {
            all_forward(r, w, first, sample, count, &key);
            loss_slope(out, count, w + out->value, labels, weight + sample, 1.0f / (samples > 1.0f ? samples : 1.0f),
                       w + out->slope);
            all_backward(r, w, first, count);
        }
        float scale[SIDES] = {1.0f, 1.0f};
        if (barrier) {
            pthread_barrier_wait(barrier);
            EACH_SIDE(r, m)
                gather_gradients(r, m->grads, leader, parts, share(m, part, parts), share(m, part + 1, parts));
        }
        if (clip > 0.0f) {
            EACH_SIDE(r, m)
                r->square[leader + part][m - r->side] =
                    squared(first + m->grads, share(m, part, parts), share(m, part + 1, parts));
            if (barrier) pthread_barrier_wait(barrier);
            clip_scales(r, leader, parts, clip, scale);
        }
        EACH_SIDE(r, m) {
            const i64 from = share(m, part, parts), to = share(m, part + 1, parts);
            if (plain)
                update(first + m->params, first + m->grads, from, to, lr, scale[m - r->side], decay);
            else
                update_more(m, first, from, to, lr, scale[m - r->side], decay, pull, momentum);
        }
        if (barrier) pthread_barrier_wait(barrier);
    }
    if (part == 0 && job->square) move_once(r, first, lr, taken);
    if (part == 0) end(r, lane, first);
    if (barrier) pthread_barrier_wait(barrier);
}

/* One lane's outputs for the samples [from, to) of its list. */
static void evaluate(Run *r, i64 lane, i64 from, i64 to, float *w) {
    const Job *job = r->job;
    const Chain *tail = last_side(r);
    const Buffer *in = r->side->buffer, *out = last_buffer(tail);
    const i64 *places = job->places + (job->shared ? 0 : lane * job->batch);
    EACH_SIDE(r, m) pack(m, job->params, job->sizes, lane, w + m->params);
    for (i64 n = from; n < to; n += job->block) {
        const i64 count = smaller(job->block, to - n);
        if (gather(&job->pool, in, places + n, count, w + in->value)) {
            atomic_store(&r->status, BAD_INDEX);
            return;
        }
        all_forward(r, w, w, 0, count, NULL);
        for (i64 i = 0; i < count; i++)
            memcpy(job->logits + (lane * job->batch + n + i) * tail->classes, w + out->value + i * out->size,
                   (size_t)tail->classes * sizeof(float));
    }
}

/* Threads a lane that is left over: none without a sample. */
INLINE i64 team_size(const Job *job, i64 threads, i64 over) { return smaller(threads / over, job->batch); }

static void work(Run *r, i64 thread) {
    const Job *job = r->job;
    const i64 over = job->split ? job->lanes % r->threads : 0, whole = job->lanes - over;
    const i64 team = over ? team_size(job, r->threads, over) : 0;
    float *w = workspace(r, thread);
    EACH_SIDE(r, m) {
        memset(w + m->begin, 0, (size_t)(m->zeros - m->begin) * sizeof(float)); /* borders and padding stay zero */
        const i64 alike[] = {m->grads, m->anchor, m->shift, m->velocity, m->square};
        for (int i = 0; i < 5; i++) /* what rounding up added */
            if (alike[i] >= 0) memset(w + alike[i] + m->parameters - 16, 0, 16 * sizeof(float));
    }
    for (i64 lane; (lane = atomic_fetch_add(&r->next, 1)) < whole;) {
        if (job->logits)
            evaluate(r, lane, 0, job->batch, w);
        else
            leg(r, lane, thread, 0, 1, NULL);
    }
    if (!over || thread >= over * team) return;
    const i64 lane = whole + thread / team, part = thread % team;
    if (job->logits)
        evaluate(r, lane, job->batch * part / team, job->batch * (part + 1) / team, w);
    else
        leg(r, lane, thread - part, part, team, team > 1 ? &r->barrier[thread / team] : NULL);
}

static void *start(void *argument) {
    Worker *worker = argument;
    pthread_mutex_lock(&worker->run->gate);
    pthread_mutex_unlock(&worker->run->gate);
    work(worker->run, worker->index);
    return NULL;
}

static int run_threads(Run *r, i64 threads, pthread_t *thread, Worker *worker) {
    const Job *job = r->job;
    pthread_mutex_lock(&r->gate);
    r->threads = 1;
    for (i64 t = 1; t < threads; t++, r->threads++) {
        worker[t] = (Worker){r, t};
        if (pthread_create(&thread[t], NULL, start, &worker[t])) break; /* then with fewer */
    }
    const i64 over = job->split ? job->lanes % r->threads : 0;
    for (i64 i = 0; i < over; i++) pthread_barrier_init(&r->barrier[i], NULL, (unsigned)team_size(job, r->threads, over));
    pthread_mutex_unlock(&r->gate);
    work(r, 0);
    for (i64 t = 1; t < r->threads; t++) pthread_join(thread[t], NULL);
    for (i64 i = 0; i < over; i++) pthread_barrier_destroy(&r->barrier[i]);
    return atomic_load(&r->status);
}

/* The chains of a job, one after another in a thread's workspace. */
static void lay_out_sides(Run *r, Stage *stage, Buffer *buffer) {
    const Job *job = r->job;
    i64 next = 0;
    for (i64 from = 0, to = 0; from < job->stages; from = to) {
        Chain *m = &r->side[r->sides];
        while (to < job->stages && job->outlines[to].side == r->sides) to++;
        *m = (Chain){.stages = to - from, .behind = r->sides, .begin = next};
        m->stage = stage + from, m->buffer = buffer + from + r->sides;
        lay_out(m, job->outlines + from, job->block, !job->logits);
        m->anchor = job->anchor ? place(&m->end, m->parameters) : -1;
        m->shift = job->shift ? place(&m->end, m->parameters) : -1;
        m->velocity = job->momentum || job->square ? place(&m->end, m->parameters) : -1;
        m->square = job->square ? place(&m->end, m->parameters) : -1;
        next = m->end;
        r->sides++;
    }
}

/* The one entry: a leg, or an evaluation where job->logits is given. FINE, NO_MEMORY or BAD_INDEX; a job whose space is
 * too small is only told how much it takes. */
int baton_run(Job *job) {
    const i64 threads = job->split ? job->threads : smaller(job->threads, job->lanes);
    Run r = {.job = job, .gate = PTHREAD_MUTEX_INITIALIZER};
    Stage *stage = calloc((size_t)job->stages, sizeof *stage);
    Buffer *buffer = calloc((size_t)job->stages + SIDES, sizeof *buffer);
    r.barrier = calloc((size_t)threads, sizeof *r.barrier);
    r.square = calloc((size_t)threads, sizeof *r.square);
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    Worker *worker = calloc((size_t)threads, sizeof *worker);
    int status = NO_MEMORY;
    if (stage && buffer && r.barrier && r.square && thread && worker) {
        lay_out_sides(&r, stage, buffer);
        const i64 floats = threads * last_side(&r)->end;
        status = floats > job->floats ? NO_SPACE : run_threads(&r, threads, thread, worker);
        job->floats = floats;
    }
    free(worker), free(thread), free(r.square), free(r.barrier), free(buffer), free(stage);
    return status;
}
