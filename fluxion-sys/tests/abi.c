/* Uses the library the way a C program would: graph, match, partial cancel, cancel, and the extensions.
 * Ends with 0, or says which expectation failed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reapi_cli.h"

#define EXPECT(condition)                                                                                             \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            const char *why = reapi_cli_get_err_msg (ctx);                                                                  \
            fprintf (stderr, "line %d: %s (errno %d) %s\n", __LINE__, #condition, errno, why);                        \
            free ((void *)why);                                                                                               \
            return 1;                                                                                                 \
        }                                                                                                             \
    } while (0)

#define VERTEX(id, type, rank, size, path)                                                                            \
    "{\"id\":\"" id "\",\"metadata\":{\"type\":\"" type "\",\"id\":" rank ",\"rank\":" rank ",\"size\":" size         \
    ",\"paths\":{\"containment\":\"" path "\"}}}"
#define EDGE(source, target) "{\"source\":\"" source "\",\"target\":\"" target "\"}"
#define ROOT                                                                                                          \
    "{\"id\":\"0\",\"metadata\":{\"type\":\"cluster\",\"id\":0,\"paths\":{\"containment\":\"/cluster0\"}}}"

static const char *graph =
    "{\"graph\":{\"nodes\":[" ROOT "," VERTEX ("1", "node", "0", "1", "/cluster0/node0") "," VERTEX (
        "2", "cpu", "0", "4000", "/cluster0/node0/cpu0") "," VERTEX ("3", "core", "0", "1",
                                                                    "/cluster0/node0/core0") "," VERTEX ("4", "node",
                                                                                                         "1", "1",
                                                                                                         "/cluster0/"
                                                                                                         "node1")
    "," VERTEX ("5", "cpu", "1", "9223372036854775807", "/cluster0/node1/cpu0") "," VERTEX ("6", "core", "1", "1",
                                                                                           "/cluster0/node1/core1")
    "],\"edges\":[" EDGE ("0", "1") "," EDGE ("1", "2") "," EDGE ("1", "3") "," EDGE ("0", "4") "," EDGE (
        "4", "5") "," EDGE ("4", "6") "]}}";

#define JOBSPEC(resources)                                                                                            \
    "{\"version\":1,\"resources\":[" resources "],\"tasks\":[{\"command\":[\"a\"],\"slot\":\"s\",\"count\":{\"per_slot\":1}}],"                  \
    "\"attributes\":{\"system\":{\"duration\":60}}}"
#define SLOTS(count, type, units)                                                                                     \
    "{\"type\":\"slot\",\"count\":" count ",\"label\":\"s\",\"with\":[{\"type\":\"" type "\",\"count\":" units "}]}"

static int with_cores (void)
{
    reapi_cli_ctx_t *ctx = reapi_cli_new ();
    uint64_t job = 0;
    bool reserved = true, all = true, sat = false;
    char *R = NULL, *mode = NULL;
    int64_t at = -1;
    double ov = -1;

    EXPECT (ctx != NULL);
    EXPECT (reapi_cli_match (ctx, MATCH_ALLOCATE, JOBSPEC (SLOTS ("1", "core", "1")), &job, &reserved, &R, &at, &ov) == -1
            && errno == EINVAL && R == NULL);
    reapi_cli_clear_err_msg (ctx);
    EXPECT (reapi_cli_initialize (ctx, "{", "{\"load_format\":\"jgf\"}") == -1 && errno == EPROTO);
    const char *text = reapi_cli_get_err_msg (ctx);
    EXPECT (strstr (text, "reapi_cli_initialize") != NULL);
    free ((void *)text);
    EXPECT (reapi_cli_initialize (ctx, graph,
                                  "{\"load_format\":\"jgf\",\"matcher_policy\":\"low\",\"match_format\":\"rv1_nosched\","
                                  "\"pool_types\":\"cpu\"}")
            == 0);
    EXPECT (reapi_cli_match (ctx, MATCH_ALLOCATE, JOBSPEC (SLOTS ("2", "core", "1")), &job, &reserved, &R, &at, &ov)
            == 0);
    EXPECT (job == 1 && !reserved && at == 0 && ov >= 0);
    EXPECT (strcmp (R,
                    "{\"version\": 1, \"execution\": {\"R_lite\": [{\"rank\": \"0\", \"children\": {\"core\": \"0\"}}, "
                    "{\"rank\": \"1\", \"children\": {\"core\": \"1\"}}], \"nodelist\": [\"node[0-1]\"], "
                    "\"starttime\": 0, \"expiration\": 60}}\n")
            == 0);
    free (R);
    R = NULL;
    EXPECT (reapi_cli_match_allocate (ctx, false, JOBSPEC (SLOTS ("1", "core", "1")), &job, &reserved, &R, &at, &ov) == -1
            && errno == EBUSY && R == NULL);
    EXPECT (reapi_cli_match_allocate (ctx, true, JOBSPEC (SLOTS ("1", "core", "1")), &job, &reserved, &R, &at, &ov) == 0
            && reserved && at == 60);
    free (R);
    EXPECT (reapi_cli_info (ctx, job, &mode, &reserved, &at, &ov) == 0 && strcmp (mode, "RESERVED") == 0);
    free (mode);
    EXPECT (reapi_cli_partial_cancel (ctx, 1, "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0\"}]}}", false, &all)
                == 0
            && !all);
    EXPECT (reapi_cli_partial_cancel (ctx, 1, "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"1\"}]}}", false, &all)
                == 0
            && all);
    EXPECT (reapi_cli_cancel (ctx, 1, false) == -1 && errno == ENOENT);
    EXPECT (reapi_cli_cancel (ctx, 1, true) == 0);
    EXPECT (reapi_cli_cancel (ctx, job, false) == 0);
    EXPECT (reapi_cli_match_satisfy (ctx, JOBSPEC (SLOTS ("3", "core", "1")), &sat, &ov) == -1 && errno == ENODEV && !sat);
    EXPECT (reapi_cli_match_satisfy (ctx, JOBSPEC (SLOTS ("2", "core", "1")), &sat, &ov) == 0 && sat);
    EXPECT (reapi_cli_stat (ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == -1 && errno == ENOSYS);
    EXPECT (reapi_cli_match (ctx, (match_op_t)9, JOBSPEC (SLOTS ("1", "core", "1")), &job, &reserved, &R, &at, &ov) == -1
            && errno == EINVAL);
    EXPECT (reapi_cli_cancel (NULL, 1, true) == -1 && errno == EINVAL);
    reapi_cli_destroy (ctx);
    reapi_cli_destroy (NULL);
    return 0;
}

static int with_pools (void)
{
    reapi_cli_ctx_t *ctx = reapi_cli_new ();
    bool reserved = true;
    char *R = NULL, *text = NULL;
    int64_t at = -1;
    double ov = -1;
    const char *two = JOBSPEC (SLOTS ("2", "cpu", "4611686018427387903"));

    EXPECT (reapi_cli_initialize (ctx, graph,
                                  "{\"load_format\":\"jgf\",\"matcher_policy\":\"lonode\",\"match_format\":\"placement\","
                                  "\"pool_types\":[\"cpu\"]}")
            == 0);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, two, 77, &reserved, &R, &at, &ov) == 0);
    EXPECT (strcmp (R, "{\"slots\":[{\"label\":\"s\",\"ranks\":\"1\",\"per_rank\":2}]}") == 0);
    free (R);
    R = NULL;
    bool is_earliest = false;
    uint64_t of_match = 0;
    EXPECT (fluxion_ext_effort (ctx, &of_match, &is_earliest) == 0 && of_match > 0 && is_earliest);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, two, 77, &reserved, &R, &at, &ov) == -1 && errno == EEXIST);
    EXPECT (fluxion_ext_effort (ctx, NULL, &reserved) == -1 && errno == EINVAL);
    uint64_t steps = 0;
    EXPECT (fluxion_ext_effort (ctx, &steps, &reserved) == 0 && reserved && steps == 0);
    EXPECT (fluxion_ext_usage (ctx, 1, &text) == 0);
    EXPECT (strcmp (text,
                    "{\"rank\":1,\"pools\":[{\"type\":\"cpu\",\"size\":9223372036854775807,"
                    "\"used\":9223372036854775806}]}")
            == 0);
    free (text);
    EXPECT (fluxion_ext_set_time (ctx, 100) == 0);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_WITHOUT_ALLOCATING_FUTURE, two, 78, &reserved, &R, &at, &ov) == 0
            && at == 101);
    free (R);
    EXPECT (fluxion_ext_charge (ctx, 79, "{\"label\":\"x\",\"rank\":1,\"count\":1,\"with\":{\"cpu\":2},\"end\":\"eventually\"}")
            == 0);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_WITHOUT_ALLOCATING_FUTURE, two, 78, &reserved, &R, &at, &ov) == 0
            && at == FLUXION_EXT_EVENTUALLY && strcmp (R, "") == 0);
    free (R);
    EXPECT (fluxion_ext_eligible (ctx, two, &text) == 0 && strcmp (text, "1") == 0);
    free (text);
    EXPECT (fluxion_ext_explain (ctx, two, &text) == 0 && strstr (text, "\"short_nodes\":2") != NULL);
    free (text);
    EXPECT (fluxion_ext_release (ctx, 77, 1, "s", 3) == -1 && errno == ENOENT);
    EXPECT (fluxion_ext_release (ctx, 77, 1, "s", 2) == 0);
    EXPECT (reapi_cli_cancel (ctx, 77, false) == -1 && errno == ENOENT);
    EXPECT (fluxion_ext_resize (ctx, 0, "cpu", 1) == 0);
    EXPECT (fluxion_ext_resize (ctx, 0, "core", 1) == -1 && errno == EINVAL);
    EXPECT (fluxion_ext_set_part (ctx, "zone", "0-5", "a") == 0);
    EXPECT (fluxion_ext_set_part (ctx, "zone", "0", NULL) == 0);
    EXPECT (fluxion_ext_set_part (ctx, "", "0", "a") == -1 && errno == EINVAL);
    EXPECT (fluxion_ext_parts (ctx, "zone", &text) == 0 && strstr (text, "{\"part\":\"a\",\"ranks\":\"1\"") != NULL);
    free (text);
    EXPECT (fluxion_ext_parts (ctx, "street", &text) == 0 && strcmp (text, "{\"level\":\"street\",\"parts\":[]}") == 0);
    free (text);
    EXPECT (fluxion_ext_remove_rank (ctx, 1) == 0);
    EXPECT (reapi_cli_cancel (ctx, 79, false) == -1 && errno == ENOENT);
    EXPECT (fluxion_ext_usage (ctx, 1, &text) == -1 && errno == ENOENT);
    reapi_cli_destroy (ctx);
    return 0;
}

/* What a clone and a repeated id share, as upstream: records of jobs, and what is left of the first grant. */
static int with_copies (void)
{
    reapi_cli_ctx_t *ctx = reapi_cli_new (), *copy = NULL;
    bool reserved = true;
    char *R = NULL, *mode = NULL;
    int64_t at = -1;
    double ov = -1;
    const char *one = JOBSPEC (SLOTS ("1", "core", "1"));
    const char *both = JOBSPEC ("{\"type\":\"cluster\",\"count\":1,\"with\":[{\"type\":\"node\",\"count\":2,\"with\":["
                                SLOTS ("1", "core", "1") "]}]}");
    const char *options = "{\"load_format\":\"jgf\",\"matcher_policy\":\"low\",\"match_format\":\"rv1_nosched\"}";

    EXPECT (reapi_cli_initialize (ctx, graph, options) == 0);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, one, 5, &reserved, &R, &at, &ov) == 0);
    free (R);
    EXPECT ((copy = reapi_cli_clone (ctx)) != NULL);
    EXPECT (reapi_cli_cancel (copy, 5, false) == 0);
    EXPECT (reapi_cli_info (ctx, 5, &mode, &reserved, &at, &ov) == 0 && strcmp (mode, "CANCELED") == 0);
    free (mode);
    /* It still holds its core here. */
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, both, 6, &reserved, &R, &at, &ov) == -1 && errno == EBUSY);
    EXPECT (reapi_cli_match_with_jobid (copy, MATCH_ALLOCATE, both, 6, &reserved, &R, &at, &ov) == 0);
    free (R);
    EXPECT (reapi_cli_info (ctx, 6, &mode, &reserved, &at, &ov) == -1 && errno == ENOENT);
    reapi_cli_destroy (copy);

    /* Both cores come free; the count of the first stays at the cluster for ever. */
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, one, 5, &reserved, &R, &at, &ov) == 0);
    free (R);
    EXPECT (reapi_cli_cancel (ctx, 5, false) == 0);
    EXPECT (reapi_cli_cancel (ctx, 5, false) == -1 && errno == ENOENT);
    EXPECT (reapi_cli_find (ctx, "sched-now=allocated", "rv1_nosched", &R) == 0 && R == NULL);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, both, 7, &reserved, &R, &at, &ov) == -1 && errno == EBUSY);
    EXPECT (reapi_cli_match_with_jobid (ctx, MATCH_ALLOCATE, one, 7, &reserved, &R, &at, &ov) == 0);
    free (R);
    reapi_cli_destroy (ctx);
    return 0;
}

int main (void)
{
    return with_cores () || with_pools () || with_copies ();
}
