/* A program as one is written for flux-sched: its include paths, its names, its types. It is compiled without knowledge of
 * anything that only this header has. Ends with 0, or says which expectation failed. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resource/policies/base/match_op.h"
#include "resource/reapi/bindings/c/reapi_cli.h"
#include "resource/reapi/bindings/c/resource_status.h"

static int failures;

static void check (bool holds, const char *what)
{
    if (!holds) {
        fprintf (stderr, "not ok: %s (errno %d)\n", what, errno);
        failures++;
    }
}

static const char *graph =
    "{\"graph\":{\"nodes\":["
    "{\"id\":\"0\",\"metadata\":{\"type\":\"cluster\",\"basename\":\"small\",\"name\":\"small0\",\"id\":0,"
    "\"paths\":{\"containment\":\"/small0\"}}},"
    "{\"id\":\"1\",\"metadata\":{\"type\":\"node\",\"name\":\"n0\",\"rank\":0,\"paths\":{\"containment\":\"/small0/n0\"}}},"
    "{\"id\":\"2\",\"metadata\":{\"type\":\"core\",\"id\":0,\"rank\":0,\"paths\":{\"containment\":\"/small0/n0/core0\"}}}],"
    "\"edges\":[{\"source\":\"0\",\"target\":\"1\"},{\"source\":\"1\",\"target\":\"2\"}]}}";

static const char *options =
    "{\"load_format\":\"jgf\",\"matcher_policy\":\"high\",\"match_format\":\"rv1_nosched\",\"matcher_name\":\"CA\"}";

static const char *jobspec =
    "{\"version\":1,\"resources\":[{\"type\":\"node\",\"count\":1,\"with\":[{\"type\":\"slot\",\"count\":1,"
    "\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":1}]}]}],"
    "\"tasks\":[{\"command\":[\"app\"],\"slot\":\"task\",\"count\":{\"per_slot\":1}}],"
    "\"attributes\":{\"system\":{\"duration\":60.0}}}";

static reapi_cli_ctx_t *opened (void)
{
    reapi_cli_ctx_t *ctx = reapi_cli_new ();

    if (!ctx || reapi_cli_initialize (ctx, graph, options) < 0) {
        fprintf (stderr, "no graph: %s\n", reapi_cli_get_err_msg (ctx));
        exit (1);
    }
    return ctx;
}

/* Upstream's type of a text: const, and the caller's. */
static bool has_text (reapi_cli_ctx_t *ctx)
{
    const char *message = reapi_cli_get_err_msg (ctx);
    bool has = message != NULL && strlen (message) > 0;

    free ((char *)message);
    return has;
}

static void operations (void)
{
    for (int op = MATCH_UNKNOWN + 1; op < END_MATCH_OP_T; op++) {
        const char *name = match_op_to_string ((match_op_t)op);

        check (name != NULL && match_op_from_string (name) == (match_op_t)op, "an operation has a name");
        check (match_op_valid ((match_op_t)op), "an operation is valid");
    }
    check (strcmp (match_op_to_string (MATCH_ALLOCATE_W_SATISFIABILITY), "allocate_with_satisfiability") == 0,
           "the name of an operation");
    errno = 0;
    check (match_op_to_string (MATCH_UNKNOWN) == NULL && errno == ENOENT, "MATCH_UNKNOWN has no name");
    check (match_op_to_string (END_MATCH_OP_T) == NULL && errno == EINVAL, "END_MATCH_OP_T is no operation");
    check (match_op_from_string (NULL) == MATCH_UNKNOWN && errno == EINVAL, "NULL names no operation");
    check (match_op_from_string ("allocat") == MATCH_UNKNOWN && errno == ENOENT, "a text that names no operation");
    errno = 0;
    check (!match_op_valid (MATCH_UNKNOWN) && !match_op_valid (END_MATCH_OP_T) && errno == 0, "errno is preserved");
}

static void jobs (void)
{
    reapi_cli_ctx_t *ctx = opened (), *clone = reapi_cli_clone (ctx);
    uint64_t jobid = 0;
    bool reserved = true, sat = false, full = false;
    char *R = NULL, *mode = NULL;
    const char *R_out = NULL;
    int64_t at = -1;
    double ov = -1;

    check (clone != NULL, "a clone");
    check (reapi_cli_clone (NULL) == NULL && errno == EINVAL, "no clone of NULL");
    check (reapi_cli_match_satisfy (ctx, jobspec, &sat, &ov) == 0 && sat, "satisfiable");
    check (reapi_cli_match_with_jobid (ctx, match_op_from_string ("allocate"), jobspec, 100, &reserved, &R, &at, &ov) == 0
               && R != NULL && !reserved && at == 0,
           "a match under an id");
    check (reapi_cli_match (ctx, MATCH_ALLOCATE_ORELSE_RESERVE, jobspec, &jobid, &reserved, &R, &at, &ov) == 0 && reserved
               && at == 60,
           "a reservation");
    check (reapi_cli_info (ctx, 100, &mode, &reserved, &at, &ov) == 0 && strcmp (mode, "ALLOCATED") == 0, "info");
    /* What the clone is given it does not share. */
    check (reapi_cli_update_allocate (clone, 7, "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0\",\"children\":"
                                                "{\"core\":\"0\"}}],\"nodelist\":[\"n0\"],\"starttime\":0,\"expiration\":9}}",
                                      &at, &ov, &R_out) == 0
               && R_out != NULL,
           "an update");
    check (reapi_cli_partial_cancel (clone, 7, R_out, false, &full) == 0 && full, "a partial cancel");
    check (reapi_cli_cancel (ctx, 100, false) == 0, "a cancel");
    check (reapi_cli_cancel (ctx, 100, false) == -1 && errno == ENOENT, "once");
    reapi_cli_destroy (clone);
    reapi_cli_destroy (ctx);
}

static void status (void)
{
    reapi_cli_ctx_t *ctx = opened ();
    resource_status_t is = RESOURCE_DOWN;

    check (reapi_cli_get_status (ctx, "/small0/n0", &is) == 0 && is == RESOURCE_UP, "up");
    check (reapi_cli_set_status (ctx, "/small0/n0", RESOURCE_DOWN) == 0, "a path goes down");
    check (reapi_cli_get_rank_status (ctx, "0", &is) == 0 && is == RESOURCE_DOWN, "down");
    check (reapi_cli_set_rank_status (ctx, "all", RESOURCE_UP) == 0, "all go up");
    check (reapi_cli_get_status (ctx, "/small0/n0", NULL) == -1 && errno == EINVAL, "a place for the answer");
    check (reapi_cli_set_status (ctx, NULL, RESOURCE_DOWN) == -1 && errno == EINVAL, "a path");
    reapi_cli_destroy (ctx);
}

static void texts (void)
{
    reapi_cli_ctx_t *ctx = opened ();

    check (reapi_cli_set_status (ctx, "/gone", RESOURCE_DOWN) == -1 && errno == EINVAL, "no such path");
    check (has_text (ctx), "a text");
    check (has_text (ctx), "a text is there until it is cleared");
    reapi_cli_clear_err_msg (ctx);
    check (!has_text (ctx), "no text");
    reapi_cli_destroy (ctx);
}

int main (void)
{
    operations ();
    jobs ();
    status ();
    texts ();
    return failures != 0;
}
