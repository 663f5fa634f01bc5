/* Provokes a panic inside each function of the library, before it changes anything: the call must fail with ECANCELED
 * and change nothing (reapi_cli_initialize: EFAULT, since there is no graph yet), and other contexts must not notice.
 * Prints the number of functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reapi_cli.h"

#define EXPECT(condition)                                                                                             \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf (stderr, "%s: line %d: %s (errno %d)\n", function, __LINE__, #condition, errno);                  \
            exit (1);                                                                                                 \
        }                                                                                                             \
    } while (0)

static const char *graph =
    "{\"graph\":{\"nodes\":[{\"id\":\"0\",\"metadata\":{\"type\":\"cluster\",\"id\":0,\"paths\":{\"containment\":\"/c0\"}}},"
    "{\"id\":\"1\",\"metadata\":{\"type\":\"node\",\"id\":0,\"rank\":0,\"paths\":{\"containment\":\"/c0/node0\"}}},"
    "{\"id\":\"2\",\"metadata\":{\"type\":\"core\",\"id\":0,\"rank\":0,\"paths\":{\"containment\":\"/c0/node0/core0\"}}}],"
    "\"edges\":[{\"source\":\"0\",\"target\":\"1\"},{\"source\":\"1\",\"target\":\"2\"}]}}";
static const char *options = "{\"load_format\":\"jgf\",\"matcher_policy\":\"lonode\",\"match_format\":\"rv1_nosched\"}";
static const char *jobspec =
    "{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":1,\"label\":\"s\",\"with\":[{\"type\":\"core\",\"count\":1}]}],"
    "\"tasks\":[{\"command\":[\"a\"],\"slot\":\"s\",\"count\":{\"per_slot\":1}}],\"attributes\":{\"system\":{\"duration\":60}}}";

/* Where answers go. */
static uint64_t jobid;
static bool flag;
static char *text;
static const char *constant;
static int64_t number;
static double seconds;
static resource_status_t status;

static int satisfy (reapi_cli_ctx_t *c) { return reapi_cli_match_satisfy (c, jobspec, &flag, &seconds); }
static int match (reapi_cli_ctx_t *c)
{
    return reapi_cli_match (c, MATCH_ALLOCATE, jobspec, &jobid, &flag, &text, &number, &seconds);
}
static int with_jobid (reapi_cli_ctx_t *c)
{
    return reapi_cli_match_with_jobid (c, MATCH_ALLOCATE, jobspec, 7, &flag, &text, &number, &seconds);
}
static int initialize (reapi_cli_ctx_t *c) { return reapi_cli_initialize (c, graph, options); }
static int clone (reapi_cli_ctx_t *c) { return reapi_cli_clone (c) ? 0 : -1; }
static int update (reapi_cli_ctx_t *c) { return reapi_cli_update_allocate (c, 9, "{}", &number, &seconds, &constant); }
static int cancel (reapi_cli_ctx_t *c) { return reapi_cli_cancel (c, 1, false); }
static int partial (reapi_cli_ctx_t *c) { return reapi_cli_partial_cancel (c, 1, "{}", false, &flag); }
static int info (reapi_cli_ctx_t *c) { return reapi_cli_info (c, 1, &text, &flag, &number, &seconds); }
static int find (reapi_cli_ctx_t *c) { return reapi_cli_find (c, "status=up", "jgf", &text); }
static int stat (reapi_cli_ctx_t *c)
{
    return reapi_cli_stat (c, &number, &number, &number, &seconds, &seconds, &seconds, &seconds);
}
static int grow (reapi_cli_ctx_t *c) { return reapi_cli_add_subgraph (c, graph); }
static int shrink (reapi_cli_ctx_t *c) { return reapi_cli_remove_subgraph (c, "/c0/node0"); }
static int mark (reapi_cli_ctx_t *c) { return reapi_cli_set_status (c, "/c0/node0", RESOURCE_UP); }
static int marked (reapi_cli_ctx_t *c) { return reapi_cli_get_status (c, "/c0/node0", &status); }
static int mark_rank (reapi_cli_ctx_t *c) { return reapi_cli_set_rank_status (c, "0", RESOURCE_UP); }
static int marked_rank (reapi_cli_ctx_t *c) { return reapi_cli_get_rank_status (c, "0", &status); }
static int set_time (reapi_cli_ctx_t *c) { return fluxion_ext_set_time (c, 5); }
static int move (reapi_cli_ctx_t *c)
{
    int later;
    return fluxion_ext_move (c, 1, &number, &flag, &text, &later);
}
static int begin_trial (reapi_cli_ctx_t *c) { return fluxion_ext_begin_trial (c); }
static int end_trial (reapi_cli_ctx_t *c) { return fluxion_ext_end_trial (c); }
static int charge (reapi_cli_ctx_t *c) { return fluxion_ext_charge (c, 1, "{}"); }
static int release (reapi_cli_ctx_t *c) { return fluxion_ext_release (c, 1, 0, "s", 1); }
static int resize (reapi_cli_ctx_t *c) { return fluxion_ext_resize (c, 0, "cpu", 1); }
static int remove_rank (reapi_cli_ctx_t *c) { return fluxion_ext_remove_rank (c, 0); }
static int set_part (reapi_cli_ctx_t *c) { return fluxion_ext_set_part (c, "rack", "0", "r"); }
static int parts (reapi_cli_ctx_t *c) { return fluxion_ext_parts (c, "rack", &text); }
static int eligible (reapi_cli_ctx_t *c) { return fluxion_ext_eligible (c, jobspec, &text); }
static int explain (reapi_cli_ctx_t *c) { return fluxion_ext_explain (c, jobspec, &text); }
static int effort (reapi_cli_ctx_t *c)
{
    uint64_t steps;
    return fluxion_ext_effort (c, &steps, &flag);
}
static int usage (reapi_cli_ctx_t *c) { return fluxion_ext_usage (c, 0, &text); }

static const struct {
    const char *name;
    int (*call) (reapi_cli_ctx_t *);
} functions[] = {
    {"reapi_cli_initialize", initialize},
    {"reapi_cli_clone", clone},
    {"reapi_cli_match", match},
    {"reapi_cli_match_with_jobid", with_jobid},
    {"reapi_cli_match_satisfy", satisfy},
    {"reapi_cli_update_allocate", update},
    {"reapi_cli_cancel", cancel},
    {"reapi_cli_partial_cancel", partial},
    {"reapi_cli_info", info},
    {"reapi_cli_find", find},
    {"reapi_cli_stat", stat},
    {"reapi_cli_add_subgraph", grow},
    {"reapi_cli_remove_subgraph", shrink},
    {"reapi_cli_set_status", mark},
    {"reapi_cli_get_status", marked},
    {"reapi_cli_set_rank_status", mark_rank},
    {"reapi_cli_get_rank_status", marked_rank},
    {"reapi_cli_destroy", NULL},
    {"fluxion_ext_set_time", set_time},
    {"fluxion_ext_move", move},
    {"fluxion_ext_begin_trial", begin_trial},
    {"fluxion_ext_end_trial", end_trial},
    {"fluxion_ext_charge", charge},
    {"fluxion_ext_release", release},
    {"fluxion_ext_resize", resize},
    {"fluxion_ext_remove_rank", remove_rank},
    {"fluxion_ext_set_part", set_part},
    {"fluxion_ext_parts", parts},
    {"fluxion_ext_eligible", eligible},
    {"fluxion_ext_explain", explain},
    {"fluxion_ext_effort", effort},
    {"fluxion_ext_usage", usage},
};

/* A match on a context that nothing has happened to. */
static void succeed (const char *function, reapi_cli_ctx_t *ctx)
{
    EXPECT (match (ctx) == 0);
    free (text);
    text = NULL;
    EXPECT (reapi_cli_cancel (ctx, jobid, false) == 0);
}

int main (void)
{
    size_t count = sizeof (functions) / sizeof (functions[0]);
    reapi_cli_ctx_t *other = reapi_cli_new ();
    const char *function = "other";
    EXPECT (initialize (other) == 0);
    for (size_t at = 0; at < count; at++) {
        function = functions[at].name;
        reapi_cli_ctx_t *ctx = reapi_cli_new ();
        EXPECT (ctx != NULL);
        if (functions[at].call != initialize)
            EXPECT (initialize (ctx) == 0);
        reapi_cli_clear_err_msg (ctx);
        setenv ("FLUXION_DEFECT_IN", function, 1);
        if (functions[at].call) {
            errno = 0;
            bool has_graph = functions[at].call != initialize;
            EXPECT (functions[at].call (ctx) == -1 && errno == (has_graph ? ECANCELED : EFAULT));
            EXPECT (text == NULL);
            const char *why = reapi_cli_get_err_msg (ctx);
            EXPECT (strstr (why, "defect") != NULL);
            free ((void *)why);
            unsetenv ("FLUXION_DEFECT_IN");
            if (has_graph)
                succeed (function, ctx);
            else
                EXPECT (find (ctx) == -1 && errno == EINVAL);
        }
        errno = 4711;
        reapi_cli_destroy (ctx);
        EXPECT (errno == 4711);
        unsetenv ("FLUXION_DEFECT_IN");
        succeed (function, other);
    }
    reapi_cli_destroy (other);
    printf ("%zu functions\n", count);
    return 0;
}
