/* Calls into a foreign libreapi_cli, one function per signature, with a barrier that no C++ exception passes.
 *
 * Rust must not be unwound by a foreign exception (in a program built with panic=abort it would die of it), so each call
 * happens in C++, inside a try. An outcome has the exception: an errno, and the text of what (). errno is read
 * here, right after the call, before anything else can change it.
 *
 * Nothing is decided here: the callers of barrier.rs check the arguments before, and judge the answers after. */
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <new>
#include <stdexcept>

struct reapi_cli_ctx;
typedef reapi_cli_ctx ctx_t;

/* As barrier.rs has it. */
struct outcome {
    int rc;      /* the result of the function */
    int error;   /* errno after it, 0 if it left none */
    int thrown;  /* 1 if it threw; rc is -1 then, and error has the kind */
    char text[256];
};

static void note (outcome *o, int error, const char *text)
{
    o->rc = -1;
    o->error = error;
    o->thrown = 1;
    std::strncpy (o->text, text ? text : "", sizeof (o->text) - 1);
    o->text[sizeof (o->text) - 1] = '\0';
}

template <typename Call>
static void guarded (outcome *o, Call call)
{
    *o = outcome ();
    errno = 0;
    try {
        call ();
        o->error = errno;
    } catch (abi::__forced_unwind &) {
        throw; /* the thread is being cancelled: may not be stopped */
    } catch (const std::bad_alloc &e) {
        note (o, ENOMEM, e.what ());
    } catch (const std::logic_error &e) { /* out_of_range, invalid_argument: it did not expect what it was given */
        note (o, EINVAL, e.what ());
    } catch (const std::exception &e) {
        note (o, EFAULT, e.what ());
    } catch (...) {
        note (o, EFAULT, "not a std::exception");
    }
}

/* A function whose result is an int. */
template <typename... P, typename... A>
static void called (outcome *o, int (*f) (P...), A... arguments)
{
    guarded (o, [&] { o->rc = f (arguments...); });
}

extern "C" {

ctx_t *fluxion_barrier_new (ctx_t *(*f) (), outcome *o)
{
    ctx_t *made = nullptr;
    guarded (o, [&] { made = f (); });
    return made;
}

ctx_t *fluxion_barrier_clone (ctx_t *(*f) (ctx_t *), outcome *o, ctx_t *ctx)
{
    ctx_t *made = nullptr;
    guarded (o, [&] { made = f (ctx); });
    return made;
}

void fluxion_barrier_void (void (*f) (ctx_t *), outcome *o, ctx_t *ctx)
{
    guarded (o, [&] { f (ctx); });
}

char *fluxion_barrier_message (char *(*f) (ctx_t *), outcome *o, ctx_t *ctx)
{
    char *text = nullptr;
    guarded (o, [&] { text = f (ctx); });
    return text;
}

void fluxion_barrier_initialize (int (*f) (ctx_t *, const char *, const char *), outcome *o, ctx_t *ctx,
                                 const char *rgraph, const char *options)
{
    called (o, f, ctx, rgraph, options);
}

void fluxion_barrier_match_allocate (int (*f) (ctx_t *, bool, const char *, uint64_t *, bool *, char **, int64_t *,
                                               double *),
                                     outcome *o, ctx_t *ctx, bool orelse_reserve, const char *jobspec, uint64_t *jobid,
                                     bool *reserved, char **R, int64_t *at, double *ov)
{
    called (o, f, ctx, orelse_reserve, jobspec, jobid, reserved, R, at, ov);
}

void fluxion_barrier_match (int (*f) (ctx_t *, unsigned, const char *, uint64_t *, bool *, char **, int64_t *, double *),
                            outcome *o, ctx_t *ctx, unsigned op, const char *jobspec, uint64_t *jobid, bool *reserved,
                            char **R, int64_t *at, double *ov)
{
    called (o, f, ctx, op, jobspec, jobid, reserved, R, at, ov);
}

void fluxion_barrier_match_with_jobid (int (*f) (ctx_t *, unsigned, const char *, uint64_t, bool *, char **, int64_t *,
                                                 double *),
                                       outcome *o, ctx_t *ctx, unsigned op, const char *jobspec, uint64_t jobid,
                                       bool *reserved, char **R, int64_t *at, double *ov)
{
    called (o, f, ctx, op, jobspec, jobid, reserved, R, at, ov);
}

void fluxion_barrier_match_satisfy (int (*f) (ctx_t *, const char *, bool *, double *), outcome *o, ctx_t *ctx,
                                    const char *jobspec, bool *sat, double *ov)
{
    called (o, f, ctx, jobspec, sat, ov);
}

void fluxion_barrier_update_allocate (int (*f) (ctx_t *, uint64_t, const char *, int64_t *, double *, const char **),
                                      outcome *o, ctx_t *ctx, uint64_t jobid, const char *R, int64_t *at, double *ov,
                                      const char **R_out)
{
    called (o, f, ctx, jobid, R, at, ov, R_out);
}

void fluxion_barrier_cancel (int (*f) (ctx_t *, uint64_t, bool), outcome *o, ctx_t *ctx, uint64_t jobid, bool noent_ok)
{
    called (o, f, ctx, jobid, noent_ok);
}

void fluxion_barrier_partial_cancel (int (*f) (ctx_t *, uint64_t, const char *, bool, bool *), outcome *o, ctx_t *ctx,
                                     uint64_t jobid, const char *R, bool noent_ok, bool *full_removal)
{
    called (o, f, ctx, jobid, R, noent_ok, full_removal);
}

void fluxion_barrier_info (int (*f) (ctx_t *, uint64_t, char **, bool *, int64_t *, double *), outcome *o, ctx_t *ctx,
                           uint64_t jobid, char **mode, bool *reserved, int64_t *at, double *ov)
{
    called (o, f, ctx, jobid, mode, reserved, at, ov);
}

void fluxion_barrier_stat (int (*f) (ctx_t *, int64_t *, int64_t *, int64_t *, double *, double *, double *, double *),
                           outcome *o, ctx_t *ctx, int64_t *V, int64_t *E, int64_t *J, double *load, double *min,
                           double *max, double *avg)
{
    called (o, f, ctx, V, E, J, load, min, max, avg);
}

void fluxion_barrier_find (int (*f) (ctx_t *, const char *, const char *, char **), outcome *o, ctx_t *ctx,
                           const char *criteria, const char *format, char **R)
{
    called (o, f, ctx, criteria, format, R);
}

void fluxion_barrier_text (int (*f) (ctx_t *, const char *), outcome *o, ctx_t *ctx, const char *text)
{
    called (o, f, ctx, text);
}

void fluxion_barrier_set_status (int (*f) (ctx_t *, const char *, unsigned), outcome *o, ctx_t *ctx, const char *where,
                                 unsigned status)
{
    called (o, f, ctx, where, status);
}

void fluxion_barrier_get_status (int (*f) (ctx_t *, const char *, unsigned *), outcome *o, ctx_t *ctx,
                                 const char *where, unsigned *status)
{
    called (o, f, ctx, where, status);
}

void fluxion_barrier_set_time (int (*f) (ctx_t *, int64_t), outcome *o, ctx_t *ctx, int64_t now)
{
    called (o, f, ctx, now);
}

void fluxion_barrier_move (int (*f) (ctx_t *, uint64_t, int64_t *, bool *, char **, int *), outcome *o, ctx_t *ctx,
                           uint64_t jobid, int64_t *at, bool *reserved, char **R, int *later)
{
    called (o, f, ctx, jobid, at, reserved, R, later);
}

void fluxion_barrier_trial (int (*f) (ctx_t *), outcome *o, ctx_t *ctx)
{
    called (o, f, ctx);
}

void fluxion_barrier_charge (int (*f) (ctx_t *, uint64_t, const char *), outcome *o, ctx_t *ctx, uint64_t jobid,
                             const char *charge)
{
    called (o, f, ctx, jobid, charge);
}

void fluxion_barrier_release (int (*f) (ctx_t *, uint64_t, uint32_t, const char *, uint64_t), outcome *o, ctx_t *ctx,
                              uint64_t jobid, uint32_t rank, const char *label, uint64_t count)
{
    called (o, f, ctx, jobid, rank, label, count);
}

void fluxion_barrier_resize (int (*f) (ctx_t *, uint32_t, const char *, uint64_t), outcome *o, ctx_t *ctx,
                             uint32_t rank, const char *type, uint64_t size)
{
    called (o, f, ctx, rank, type, size);
}

void fluxion_barrier_remove_rank (int (*f) (ctx_t *, uint32_t), outcome *o, ctx_t *ctx, uint32_t rank)
{
    called (o, f, ctx, rank);
}

void fluxion_barrier_set_part (int (*f) (ctx_t *, const char *, const char *, const char *), outcome *o, ctx_t *ctx,
                               const char *level, const char *ranks, const char *part)
{
    called (o, f, ctx, level, ranks, part);
}

void fluxion_barrier_ask (int (*f) (ctx_t *, const char *, char **), outcome *o, ctx_t *ctx, const char *jobspec,
                          char **answer)
{
    called (o, f, ctx, jobspec, answer);
}

void fluxion_barrier_effort (int (*f) (ctx_t *, uint64_t *, bool *), outcome *o, ctx_t *ctx, uint64_t *steps, bool *is_earliest)
{
    called (o, f, ctx, steps, is_earliest);
}

void fluxion_barrier_usage (int (*f) (ctx_t *, uint32_t, char **), outcome *o, ctx_t *ctx, uint32_t rank, char **answer)
{
    called (o, f, ctx, rank, answer);
}

} /* extern "C" */
