/* A libreapi_cli that does what the jobspec says: throws, fails, or succeeds with nonsense. Compiled by the test, with
 * VERSION as 26, 33, 54 (which functions there are), or 0 (lacks one that every version has). */
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <unistd.h>

struct reapi_cli_ctx {
    std::map<uint64_t, std::string> jobs;
    uint64_t next = 1;
};

/* The texts of failures on all contexts, as upstream has them. */
static std::string texts;

/* How many calls are inside, and whether there ever were two. */
static int inside, together;

struct Visit {
    Visit ()
    {
        if (__atomic_add_fetch (&inside, 1, __ATOMIC_SEQ_CST) > 1)
            __atomic_store_n (&together, 1, __ATOMIC_SEQ_CST);
    }
    ~Visit () { __atomic_sub_fetch (&inside, 1, __ATOMIC_SEQ_CST); }
};

static int fail (reapi_cli_ctx *, int error, const char *text)
{
    texts += text;
    errno = error;
    return -1;
}

static int act (reapi_cli_ctx *ctx, const char *say, uint64_t jobid, bool *reserved, char **R, int64_t *at, double *ov)
{
    Visit visit;
    std::string what (say);
    *at = 0;
    *ov = 0.25;
    if (what == "throw runtime_error")
        throw std::runtime_error ("no such thing");
    if (what == "throw out_of_range")
        throw std::out_of_range ("map::at");
    if (what == "throw bad_alloc")
        throw std::bad_alloc ();
    if (what == "throw int")
        throw 7;
    if (what == "busy") {
        *R = (char *)0x10; /* must be neither read nor freed */
        return fail (ctx, EBUSY, "");
    }
    if (what == "fail silently")
        return -1;
    if (what == "fail with bytes")
        return fail (ctx, EINVAL, "not UTF-8: \xff\xfe\n");
    ctx->jobs[jobid] = "ALLOCATED";
    *reserved = false;
    *at = 60;
    if (what == "without R")
        *R = nullptr;
    else if (what == "bytes")
        *R = strdup ("\xff\xfe{");
    else if (what == "slowly") {
        usleep (2000);
        *R = strdup ("{}");
    } else
        *R = strdup (what.c_str ());
    return 0;
}

extern "C" {

#if VERSION != 0
reapi_cli_ctx *reapi_cli_new ()
{
    return new reapi_cli_ctx ();
}
#endif

void reapi_cli_destroy (reapi_cli_ctx *ctx)
{
    if (!ctx)
        abort ();
    delete ctx;
    errno = 99;
}

int reapi_cli_initialize (reapi_cli_ctx *ctx, const char *rgraph, const char *options)
{
    if (!ctx || !rgraph || !options)
        abort ();
    if (strcmp (rgraph, "throw") == 0)
        throw std::runtime_error ("cannot be read");
    return strcmp (rgraph, "wrong") == 0 ? fail (ctx, EPROTO, "wrong graph\n") : 0;
}

int reapi_cli_match_allocate (reapi_cli_ctx *ctx, bool, const char *jobspec, uint64_t *jobid, bool *reserved, char **R,
                              int64_t *at, double *ov)
{
    *jobid = ctx->next++;
    return act (ctx, jobspec, *jobid, reserved, R, at, ov);
}

int reapi_cli_update_allocate (reapi_cli_ctx *ctx, uint64_t jobid, const char *R, int64_t *at, double *ov,
                               const char **R_out)
{
    bool reserved;
    return act (ctx, R, jobid, &reserved, (char **)R_out, at, ov);
}

int reapi_cli_cancel (reapi_cli_ctx *ctx, uint64_t jobid, bool noent_ok)
{
    return ctx->jobs.erase (jobid) || noent_ok ? 0 : fail (ctx, ENOENT, "nonexistent\n");
}

int reapi_cli_info (reapi_cli_ctx *ctx, uint64_t jobid, char **mode, bool *reserved, int64_t *at, double *ov)
{
    auto job = ctx->jobs.find (jobid);
    if (job == ctx->jobs.end ()) {
        *mode = (char *)0x10;
        return fail (ctx, ENOENT, "nonexistent\n");
    }
    *mode = strdup (job->second.c_str ());
    *reserved = false;
    *at = 1;
    *ov = 2;
    return 0;
}

int reapi_cli_stat (reapi_cli_ctx *, int64_t *V, int64_t *, int64_t *, double *, double *, double *, double *)
{
    *V = __atomic_load_n (&together, __ATOMIC_SEQ_CST);
    return 0;
}

char *reapi_cli_get_err_msg (reapi_cli_ctx *)
{
    if (texts == "NULL")
        return nullptr;
    return strdup (texts.c_str ());
}

void reapi_cli_clear_err_msg (reapi_cli_ctx *)
{
    texts.clear ();
}

#if VERSION >= 33
int reapi_cli_match (reapi_cli_ctx *ctx, unsigned, const char *jobspec, uint64_t *jobid, bool *reserved, char **R,
                     int64_t *at, double *ov)
{
    return reapi_cli_match_allocate (ctx, false, jobspec, jobid, reserved, R, at, ov);
}

int reapi_cli_match_satisfy (reapi_cli_ctx *ctx, const char *jobspec, bool *sat, double *ov)
{
    *sat = true; /* also where it fails, as before 0.53 */
    *ov = 0.5;
    return strcmp (jobspec, "never") == 0 ? fail (ctx, ENODEV, "") : 0;
}
#endif

#if VERSION >= 54
int reapi_cli_partial_cancel (reapi_cli_ctx *ctx, uint64_t jobid, const char *R, bool, bool *full_removal)
{
    if (strstr (R, "shared"))
        abort ();
    *full_removal = true;
    return ctx->jobs.erase (jobid) ? 0 : fail (ctx, ENOENT, "nonexistent\n");
}

int reapi_cli_match_with_jobid (reapi_cli_ctx *ctx, unsigned, const char *jobspec, uint64_t jobid, bool *reserved,
                                char **R, int64_t *at, double *ov)
{
    return act (ctx, jobspec, jobid, reserved, R, at, ov);
}

reapi_cli_ctx *reapi_cli_clone (reapi_cli_ctx *ctx)
{
    if (ctx->jobs.count (13))
        throw std::runtime_error ("unlucky");
    return new reapi_cli_ctx (*ctx);
}

int reapi_cli_find (reapi_cli_ctx *ctx, const char *criteria, const char *, char **R)
{
    std::string what (criteria);
    if (what == "nothing")
        *R = nullptr;
    else if (what == "bytes")
        *R = strdup ("\xff");
    else if (what == "throw")
        throw std::runtime_error ("while looking");
    else
        *R = strdup ("{}");
    return 0;
}

int reapi_cli_get_status (reapi_cli_ctx *, const char *path, unsigned *status)
{
    *status = strcmp (path, "/odd") == 0 ? 17 : 1;
    return 0;
}

int reapi_cli_set_status (reapi_cli_ctx *, const char *, unsigned status)
{
    if (status > 1)
        abort ();
    return 0;
}

int reapi_cli_remove_subgraph (reapi_cli_ctx *, const char *)
{
    return -1; /* without errno, as upstream */
}
#endif

} /* extern "C" */
