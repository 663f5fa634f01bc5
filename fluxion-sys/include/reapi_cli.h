/* reapi_cli.h - the C interface of Fluxion's resource graph, as fluxion-sys defines it
 *
 * Compatible with reapi_cli.h of flux-sched 0.54 at source level, together with resource_status.h and match_op.h that go with
 * it: the folder of this header has them under their upstream paths as well. A program compiled against this header runs with an
 * upstream libreapi_cli.so and with the built-in library; functions that came to upstream later than 0.30 may be absent there,
 * and those named fluxion_ext_* always are.
 *
 * INTRODUCTION
 *   A context holds one resource graph, the jobs that hold parts of it, and a clock.
 *
 *     reapi_cli_ctx_t *ctx = reapi_cli_new ();
 *     reapi_cli_initialize (ctx, jgf_text, "{\"load_format\":\"jgf\",\"matcher_policy\":\"lonode\"}");
 *     reapi_cli_match (ctx, MATCH_ALLOCATE, jobspec, &jobid, &reserved, &R, &at, &overhead);
 *     free (R);
 *     reapi_cli_cancel (ctx, jobid, false);
 *     reapi_cli_destroy (ctx);
 *
 * ERRORS
 *   Functions that return int return 0, or -1 with errno set. Failures of the built-in library leave a text that
 *   reapi_cli_get_err_msg returns, except EBUSY, ENODEV and EAGAIN, which are answers, and those about which upstream is silent
 *   (arguments that are NULL, a context without a graph). A call that fails changes nothing. A table in docs/fluxion-errno.md
 *   has the errnos of each function with their causes. In short:
 *     EINVAL     an argument, the jobspec or a document is wrong; also: ctx is NULL or not initialized
 *     EBUSY      the request does not fit now
 *     ENODEV     the request would not fit on the idle machine either
 *     EAGAIN     ours, only for several shapes on pools, or levels, or with a search_budget: no place was found, and there is
 *                no proof that there is none; the same question gets the same answer until something changes
 *     ENOENT     there is no such job, path, rank or slot; also: a match later than now finds a place of which nothing would be
 *                taken, and find shows the root alone
 *     ERANGE     of a match with alternative slots: the request does not fit now, and one of the alternatives never does
 *     EEXIST     there already is a job of this id (upstream does not notice, and loses the first one's resources)
 *     ENOTSUP    not possible with this kind of graph
 *     EPROTO     the graph or the options cannot be used (initialize only)
 *     EOVERFLOW  a job that is to be cancelled has an id larger than INT64_MAX: as upstream, a match can use such an id, and no
 *                call removes the job; also: the choices of xor_slot multiply to more than 1000
 *     ENOSYS     not offered by this library; also: match_format placement for resources that are not made of pools
 *     EFAULT     a defect of the library itself was caught in the midst of a change; the context can only be destroyed
 *     ECANCELED  a defect was caught in a call that had changed nothing so far (any question; any other call until all its
 *                arguments are read and checked), or in a match, which is undone: nothing has changed, and the context still
 *                answers
 *
 * OWNERSHIP
 *   Strings passed in are read during the call and never kept. Strings handed out (char **, and the result of
 *   reapi_cli_get_err_msg) belong to the caller, and the caller frees them with free (3). They are set on success only.
 *
 * THREADS
 *   A context must not be used by two threads at once, and that includes its error text; it may move between threads, and
 *   takes the text along. Different contexts of the built-in library are independent. Upstream's share their error text in the
 *   whole process: calls to upstream's must be serialised process-wide.
 *
 * TEXT
 *   All strings are UTF-8 (anything else is EINVAL) and end in NUL.
 */
#ifndef FLUXION_SYS_REAPI_CLI_H
#define FLUXION_SYS_REAPI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h> /* free (3), also for bindings that see no other header */

#ifdef __cplusplus
extern "C" {
#endif

/* A context. Destroyed by reapi_cli_destroy. */
typedef struct reapi_cli_ctx reapi_cli_ctx_t;

/* The operations of a match. The values never change; new ones are added at the end. */
typedef enum match_op_t {
    MATCH_UNKNOWN = 0,                     /* invalid */
    MATCH_ALLOCATE = 1,                    /* now, or EBUSY */
    MATCH_ALLOCATE_W_SATISFIABILITY = 2,   /* now, or EBUSY, or ENODEV if the request could never fit */
    MATCH_ALLOCATE_ORELSE_RESERVE = 3,     /* now, or reserved at the earliest instant */
    MATCH_SATISFIABILITY = 4,              /* 0 if the request could ever fit, taking nothing; status and jobs are ignored */
    MATCH_WITHOUT_ALLOCATING = 5,          /* as MATCH_ALLOCATE, but take nothing */
    MATCH_WITHOUT_ALLOCATING_FUTURE = 6,   /* as MATCH_ALLOCATE_ORELSE_RESERVE, but take nothing */
    END_MATCH_OP_T                         /* one more than the last; invalid */
} match_op_t;

/* The name of an operation, as resource-query and flux ion-resource have it: "allocate", "allocate_with_satisfiability",
 * "allocate_orelse_reserve", "satisfiability", "without_allocating", "without_allocating_future". It is not to be freed. NULL with
 * errno ENOENT for MATCH_UNKNOWN, with EINVAL for no value of the type. */
const char *match_op_to_string (match_op_t match_op);

/* The operation of a name. MATCH_UNKNOWN with errno EINVAL if the name is NULL, with ENOENT if there is no such operation. */
match_op_t match_op_from_string (const char *str);

/* True if a match knows the operation. errno is preserved. */
bool match_op_valid (match_op_t match_op);

/* Status of a vertex. */
typedef enum resource_status_t {
    RESOURCE_UP = 0,
    RESOURCE_DOWN = 1
} resource_status_t;

/* ------------------------------------------------------------------------------------------------------------------
 * Context
 * ---------------------------------------------------------------------------------------------------------------- */

/* A new context without a graph, or NULL with errno ENOMEM. */
reapi_cli_ctx_t *reapi_cli_new (void);

/* A deep copy: graph, jobs, clock. NULL with errno EINVAL if ctx has no graph. As upstream, the records of the jobs that both
 * know are shared: if one context cancels such a job, the info of the other shows it as CANCELED too, and the other still holds
 * its resources until it cancels the job as well. The copy begins with the error text that ctx has; each has its own from then
 * on. */
reapi_cli_ctx_t *reapi_cli_clone (reapi_cli_ctx_t *ctx);

/* Frees a context. NULL is allowed (not upstream). errno is preserved. */
void reapi_cli_destroy (reapi_cli_ctx_t *ctx);

/* Gives the context its graph; a second call replaces the graph, and removes all jobs.
 *   rgraph   text of the document in the format that option load_format names
 *   options  JSON object; always set load_format, matcher_policy and match_format, since the defaults surprise:
 *              load_format       "grug" (default), "jgf", "jgf_shorthand", "rv1exec", "hwloc" (XML)
 *              load_allowlist    of "hwloc": types of vertices, with commas; others are left out
 *              matcher_policy    "first" (default), "firstnodex", "low", "high", "lonode", "hinode", "lonodex", "hinodex",
 *                                "locality", "variation", or "policy=high|low [node_centric=true] [node_exclusive=true]
 *                                [stop_on_1_matches=true]"; ours: "binpack" and "spread" (with pool_types only, else EPROTO)
 *              traverser_policy  "simple" (default) or "flexible": sibling slots are alternatives, and xor_slot is known
 *              match_format      "jgf" (default), "jgf_shorthand", "rlite", "rv1", "rv1_nosched", "rv1_shorthand", "simple",
 *                                "pretty_simple", and ours: "placement"; an unknown name means "simple"
 *              prune_filters     "ALL:core,ALL:node" (default): types that vertices count in their subtrees
 *              matcher_name      "CA"; others: EPROTO
 *              search_budget   ours: steps that the searches of one call may take (fluxion_ext_effort); no limit without it
 *              pool_types      ours: list of vertex types, or text with commas, that are pools (see fluxion_ext below);
 *                              "*" stands for every type directly below a node
 *            other keys are passed over. */
int reapi_cli_initialize (reapi_cli_ctx_t *ctx, const char *rgraph, const char *options);

/* ------------------------------------------------------------------------------------------------------------------
 * Jobs
 * ---------------------------------------------------------------------------------------------------------------- */

/* Matches a jobspec (RFC 14 and 25, JSON or YAML) under an id that the library chooses.
 *   jobid     the id of the job; UINT64_MAX if nothing was taken
 *   reserved  true if the job starts later than now; its place is kept
 *   R         the granted resources, in match_format; "" for MATCH_SATISFIABILITY, and for resources for which the format has
 *             no words (rv1 without cores and GPUs, on a graph without pools). Set on success only. A grant that cannot be
 *             written (rv1 of a node without a rank) is EINVAL, and is taken all the same, as upstream does
 *   at        second at which it starts; see FLUXION_EXT_EVENTUALLY
 *   ov        seconds that the match took */
int reapi_cli_match (reapi_cli_ctx_t *ctx, match_op_t match_op, const char *jobspec, uint64_t *jobid, bool *reserved,
                     char **R, int64_t *at, double *ov);

/* The same under an id that the caller chooses. On a graph with pools EEXIST if a job of that id holds or will hold something;
 * without pools the second job is not noticed, as upstream: reapi_cli_cancel frees both, but the vertices above both stay
 * counted as used for ever. If the grant of the second job cannot be written, the call changes nothing. */
int reapi_cli_match_with_jobid (reapi_cli_ctx_t *ctx, match_op_t match_op, const char *jobspec, uint64_t jobid,
                                bool *reserved, char **R, int64_t *at, double *ov);

/* reapi_cli_match with MATCH_ALLOCATE_ORELSE_RESERVE or MATCH_ALLOCATE. */
int reapi_cli_match_allocate (reapi_cli_ctx_t *ctx, bool orelse_reserve, const char *jobspec, uint64_t *jobid,
                              bool *reserved, char **R, int64_t *at, double *ov);

/* MATCH_SATISFIABILITY: 0 and *sat true, or -1 (ENODEV) and *sat false. */
int reapi_cli_match_satisfy (reapi_cli_ctx_t *ctx, const char *jobspec, bool *sat, double *ov);

/* Makes a job of the resources in R: RFC 20 with or without "scheduling", or JGF alone (from 0 on, without end). EINVAL, as
 * upstream: R is wrong, is "", names nothing that is exclusive, or names resources that are not free: vertices that a job has
 * or will have, a node on which another job has units, units that are not free. ENOENT: R names resources that are not there.
 * EEXIST: there is a job of this id. ENOTSUP: JGF alone, on a graph that was not loaded from a document of vertices.
 *   On a graph with pools an R of rv1, rv1_shorthand or rv1_nosched names the slots of the job, in the words of a charge:
 *     "attributes":{"system":{"fluxion":{"slots":[
 *       {"label":"s","with":{"cpu":2},"end":60,"on":[{"ranks":"0-3","per_rank":1}]}]}}}
 *   and the job that is made of it has the same claims as the one that was granted it. It is a reservation if it starts later
 *   than now, and begins when its time comes; fluxion_ext_move does not know its request, and refuses it. rv1_nosched has no
 *   words for whole vertices other than cores and GPUs of nodes, as upstream's: licences, or storage of a rack, are held but not
 *   named, and do not come back from it (rv1, rv1_shorthand and jgf name them). jgf, rlite and placement have none for slots.
 *   at     second at which it starts
 *   R_out  the resources of the job, in match_format; the caller frees it. ENOSYS if the format is placement */
int reapi_cli_update_allocate (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, int64_t *at, double *ov,
                               const char **R_out);

/* Gives back all resources of a job. ENOENT if there is no such job, unless noent_ok. */
int reapi_cli_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, bool noent_ok);

/* Gives back the resources of an allocated job on the ranks that R (RFC 20, key execution.R_lite) names, or of the vertices
 * that R names if it has a key "scheduling". *full_removal: true if nothing is left; the job has then ended. EINVAL if the job
 * has none of these resources. ENOENT if there is no such job, or it is a reservation, unless noent_ok. */
int reapi_cli_partial_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, bool noent_ok,
                              bool *full_removal);

/* mode: "ALLOCATED", "RESERVED" or "CANCELED". Of jobs that have ended the last 65,536 are remembered; then ENOENT. */
int reapi_cli_info (reapi_cli_ctx_t *ctx, uint64_t jobid, char **mode, bool *reserved, int64_t *at, double *ov);

/* The vertices that meet an expression, with the vertices above them. *R: compact JSON, NULL if there are none.
 *   criteria  an expression of criteria key=value, joined by "and" (also by nothing) and "or" from left to right, with
 *             parentheses: status=up|down, sched-now=allocated|free, sched-future=reserved|free, names=HOSTLIST, property=KEY,
 *             jobid-alloc=ID, jobid-reserved=ID, jobid-span=ID, jobid-tag=ID, agfilter=true|false (the units that vertices
 *             count in their subtrees)
 *   format    as match_format, NULL for that of the context; "simple" and "pretty_simple" are no JSON: ENOMEM on a hit
 * Units of pools count as vertices do: a job with units of a type on a node has all pools of this type there.
 * EINVAL: criteria or format. */
int reapi_cli_find (reapi_cli_ctx_t *ctx, const char *criteria, const char *format, char **R);

/* Not offered, as upstream: -1, ENOSYS. */
int reapi_cli_stat (reapi_cli_ctx_t *ctx, int64_t *V, int64_t *E, int64_t *J, double *load, double *min,
                    double *max, double *avg);

/* ------------------------------------------------------------------------------------------------------------------
 * Graph
 * ---------------------------------------------------------------------------------------------------------------- */

/* Adds the vertices of a JGF document that are not there yet; one is there if its path and rank are. */
int reapi_cli_add_subgraph (reapi_cli_ctx_t *ctx, const char *subgraph);

/* Removes the vertex at a path, with its subtree. Jobs keep removed whole vertices until they end, as upstream; on a graph with
 * pools they lose these, and units of pools, and a job that has lost all its resources has ended. */
int reapi_cli_remove_subgraph (reapi_cli_ctx_t *ctx, const char *subgraph_path);

/* Up or down; a vertex that is down takes everything below it out of matches, except MATCH_SATISFIABILITY. */
int reapi_cli_set_status (reapi_cli_ctx_t *ctx, const char *resource_path, resource_status_t status);
int reapi_cli_get_status (reapi_cli_ctx_t *ctx, const char *resource_path, resource_status_t *status);

/* The same by rank: an idset or "all"; unknown ranks are passed over. get: exactly one. */
int reapi_cli_set_rank_status (reapi_cli_ctx_t *ctx, const char *ranks, resource_status_t status);
int reapi_cli_get_rank_status (reapi_cli_ctx_t *ctx, const char *rank, resource_status_t *status);

/* ------------------------------------------------------------------------------------------------------------------
 * Texts of failures
 * ---------------------------------------------------------------------------------------------------------------- */

/* The texts of the failures on this context since the last clear, oldest first, at most 64 KiB: "" if there are none. Of other
 * contexts it has none (upstream's has those of all contexts of the process). The caller frees it, though it is const, as
 * upstream. NULL if there is no memory. Of NULL: a text that says so, with errno EINVAL; calls on NULL note nothing. */
const char *reapi_cli_get_err_msg (reapi_cli_ctx_t *ctx);

/* Forgets the texts of this context. NULL is allowed. */
void reapi_cli_clear_err_msg (reapi_cli_ctx_t *ctx);

/* ------------------------------------------------------------------------------------------------------------------
 * fluxion_ext_*: functions that upstream does not have. Not stable yet.
 *
 * POOLS
 *   A vertex of a pool type hands out any number of its `size` units (up to 2^63-1), exactly. It lies directly below a
 *   vertex of type node that has a rank. A slot that asks for {"type":"cpu","count":1500} takes 1500 units of the cpu of one
 *   node. A node that lacks a type of the slot has no room for it.
 *   A request that consists of top-level slots of pool units may have several of them (each label once): all get their place,
 *   or none. Counts are at most 2^32-1 slots. A slot may ask for a range ({"min":2,"max":8}, with operator and operand as in
 *   RFC 14): it gets as many slots as there is room for when it starts, and starts when there is room for the minimum; of
 *   several such slots the first is raised first. Units within a slot are numbers, here and in all other requests (EINVAL).
 *   Other requests walk the graph as upstream does; prefer, max_per_node and slots are EINVAL there, and a request for units of a pool stands directly in a slot, on the
 *   level of a node.
 *
 * SEVERAL SHAPES
 *   One shape is placed exactly. Several are placed greedily, the scarcest first, in up to four orders; if these leave a shape
 *   without a place, a search follows. Preferences give way to any place at all. The search is exact, so that the answer is a
 *   place, EBUSY or ENODEV, in these cases:
 *     - no node takes more than one slot of the request, by its limits or by its free units;
 *     - on every node the shapes are not in each other's way, or the shapes that are take equal units of the pools that are
 *       short;
 *     - few slots can be shared out in few ways: all shapes but the one with the most slots, taken together, on all nodes that
 *       differ, in at most 16 million steps. Three shapes of together 24 slots take at most 2025 steps per node, two of which
 *       the smaller has 32 slots 561; nodes on which everything is equal count once for each slot.
 *   In all other cases a place that is found fits, and EBUSY or ENODEV is proved by relaxations: each shape alone; slots, and
 *   the units of each pool and each limit, as flows from shapes to nodes. Without a place and without such a proof the answer
 *   is EAGAIN. A search for a flow counts as one without a result after 16 million steps; there is no search for requests of
 *   more than 500 shapes, or of which nodes times shapes times pools and limits are more than 16 million.
 *   Slots of one request may be held for different times; they share a node for as long as both are held.
 *
 * REQUEST: attributes.system.fluxion in the jobspec (upstream ignores it)
 *   "policy": "lonode"            the order of nodes for this request
 *   "prefer": ["3-5", "9"]        tiers of ranks, best first; the other ranks come last
 *   "counted": "0-31"             ranks that count for max_skew (see below) besides those that may be used, up or down
 *   "max_per_node": [{"labels": ["a","b"], "count": 1}]
 *                                 at most this number of slots of these labels together on one node
 *   "end": "eventually"           it ends at a time that is not known; system.duration is ignored
 *   "not_before": SECOND          it may not start earlier, as long as it is not moved. Heeded by MATCH_ALLOCATE_ORELSE_RESERVE
 *                                 and MATCH_WITHOUT_ALLOCATING_FUTURE
 *   "slots": [{"label": "a", "ranks": "0-7", "prefer": ["3"], "counted": "0-9", "duration": 60, "end": "eventually"}]
 *                                 conditions for the slots of one label (each at most once): their nodes, of those that the
 *                                 constraints admit; their own tiers and counted ranks; their own duration or end. Members that
 *                                 are left out are as for the whole request. Limits hold on all nodes, whatever the ranks.
 *                                 starttime and expiration of R are those of the slots that are held longest.
 *   "levels": [{"level": "rack", "labels": ["a","b"], "within": "one"}]
 *                                 the parts of a level in which the slots of these labels (without labels: all) may lie, see
 *                                 below
 *   "tenant": 17                  its slots have their nodes alone, see below
 *   "guest": true                 its slots are guests, see below
 *   A duration of 0, or none, means that it never ends.
 *   For pools first, low and lonode fill the lowest ranks first, high and hinode the highest.
 *
 * LEVELS
 *   A level is a named partition of the ranks, such as racks or zones; several stand beside each other. A rank is in at most one
 *   part of a level: by the vertices between the root and its node (level: their type; part: their path), or by
 *   fluxion_ext_set_part, which also moves it. Each rule of a request names a level, and any of
 *     "within": "one"        all slots in one part: the tightest in which there is a place, that is the one in which the free
 *                            units on nodes that are up, added up, hold the units of these slots the fewest times, by the pool
 *                            that is scarcest there; among equals by rank
 *     "slice": true          beside "one": it is one of several slices, each in a part of its own choice. For max_skew of other
 *                            rules the parts outside of it count as well, and of the parts in which there is a place those
 *                            come first that have the fewest slots under such rules
 *     "within": "fewest"     all slots in one part if possible, else in as few parts as possible
 *     "part": "/c0/rack0"    in this part
 *     "max_per_part": 4      at most this number of slots together in one part
 *     "max_skew": 1          the numbers of slots of any two parts differ by no more. All parts count that have a node that the
 *                            slots may use, also without room, or one that is counted for them, within the parts that rules
 *                            for one part have got, but for slices. Not with within
 *   and its slots lie on no nodes that are in no part. All matches keep the rules, now and later; within the rules, slots are
 *   placed as without. One shape with bounds (fewest, max_per_part, max_skew) on one level is placed exactly; so are several
 *   shapes with few ways to share them out over the parts (numbers of slots times parts: 4,096), slices that are all of a
 *   request, alike and of as many slots each, with a max_skew on the level of their parts, and requests that have rules for one
 *   part only, if there are no more than 4,096 combinations of parts. In all other cases a place that is found keeps the rules,
 *   and EAGAIN says that there is neither a place nor a proof; fewest may use more parts than necessary.
 *   A job that has started keeps its nodes when they come to be in other parts. A reservation keeps them too until it is moved.
 *
 * TENANTS
 *   Slots of a tenant, a number of the caller's, are on no node on which others have slots, and no slots of others come to a
 *   node on which they are, now and later, as long as they are held: the units that are left there stay unused. Slots of the
 *   same tenant share nodes, in one request or in several. Guests share nodes with all other slots, take units of their pools
 *   as all slots do, and exclude no slots but by these units. A charge puts slots on a node regardless of the slots there, and
 *   names their tenant itself. Usage counts the units that slots take, and no more. For slots of pool units only: EINVAL for a
 *   request that would walk the graph.
 *
 * POLICIES binpack AND spread
 *   Nodes by how full they are: binpack takes the fullest that has room, spread the emptiest, the lowest rank among equals.
 *   A node's fill is a function of its present state alone, not of earlier grants: the mean over its pools of used / size, in
 *   billionths, rounded down for each pool and once more for the mean. All pools of the node count, also those that the request
 *   does not name. A pool that is used beyond its size counts as full, one of size 0 of which nothing is used does not count.
 *   Slots are placed one after the other, and each counts the units that those before it took. Tiers of prefer come before the
 *   fill. Several shapes: the scarcest first (the least room for each wanted slot, of which no more than 16 slots are counted),
 *   as with the other policies; if this leaves a shape without a place, the orders that are tried then keep shapes off each
 *   other's nodes first, and a last search takes any nodes.
 *   For a later instant the fill is that of the node at that instant: by the ends that are known and the reservations that have
 *   begun by then; for "eventually" only slots that never end count, for the idle machine none.
 *   For slots of pool units only: EINVAL where a request would walk the graph.
 *
 * ANSWER: match_format "placement"
 *   {"slots":[{"label":"0","ranks":"0-3,7","per_rank":2}, ...]}
 *   shapes in the order of the request, within a shape the ranks with most slots first.
 *
 * ONE ACCOUNT
 *   Whole vertices and units of pools of one graph exclude each other, now and later: nothing of a pool is free on a node that
 *   a job has whole, or with the rack that holds it, and no job gets a node whole on which another has units, or will have some
 *   before the first would be gone. fluxion_ext_usage counts all pools of a node that a job has whole as used.
 *
 * TIME
 *   Now is 0 until it is set. A job past its end holds its resources until it is cancelled; for later instants it is taken to
 *   end at now + 1. A reservation becomes an allocation when the clock is set to its start or beyond, in the order of starts
 *   and ids, if all its resources are up and free; else it stays a reservation, and is put off to start at now + 1
 *   (reapi_cli_info tells). MATCH_WITHOUT_ALLOCATING_FUTURE answers the earliest instant if the known ends suffice,
 *   FLUXION_EXT_EVENTUALLY (and R "") if the request fits once all jobs that have an end have ended, EBUSY if jobs that never
 *   end, or nodes that are down, stand in the way, ENODEV if the request would not fit on the idle machine, EAGAIN if there is
 *   neither a place nor a proof for any of these moments. A place that is found fits; there may be one at an earlier instant
 *   too if the search there gave up, or if instants were passed over: of several shapes they are tried one after another for 16
 *   million steps, then by bisection. MATCH_ALLOCATE is EAGAIN if there is neither a place nor a proof for now; the other
 *   operations follow from these rules.
 * ---------------------------------------------------------------------------------------------------------------- */

/* An instant that is not known. INT64_MAX / 2. */
#define FLUXION_EXT_EVENTUALLY INT64_C (4611686018427387903)

/* Moves the present, in seconds of whatever epoch. It never goes back: an earlier instant changes nothing, and one beyond half of
 * FLUXION_EXT_EVENTUALLY is EINVAL. */
int fluxion_ext_set_time (reapi_cli_ctx_t *ctx, int64_t now);

/* The causes of the delay of a reservation, a bit each. */
#define FLUXION_EXT_LATER_OVERDUE 1  /* work past its end has its room */
#define FLUXION_EXT_LATER_CAPACITY 2 /* a node was removed, a pool made smaller, or charged beyond its free units */
#define FLUXION_EXT_LATER_STATUS 4   /* a node is down, or the request may use it no more, or it is in another part of a level */

/* Withdraws a reservation and makes it again at the earliest instant around all others, on the nodes that the request would get
 * if it were new (whole vertices: the same, unless it can start earlier). It starts later only if its room is not free any
 * more, for the causes above. If it can start now it is an allocation then. On graphs with pools; ENOENT if there is no such
 * job, EINVAL if the job is no reservation, EBUSY and the like if its room is gone and there is none at any instant: then it is
 * left as it was.
 *   at        second at which it starts
 *   reserved  true if it is still a reservation
 *   R         its new resources, in match_format; "" if it keeps those that it had
 *   later     causes for which it starts later; 0 if it does not */
int fluxion_ext_move (reapi_cli_ctx_t *ctx, uint64_t jobid, int64_t *at, bool *reserved, char **R, int *later);

/* A trial: all changes between these two calls are taken back, in about the time in which they were made. Jobs may be matched,
 * cancelled, moved, charged, released, and the clock set; the graph stays as it is: functions that change it are ENOTSUP.
 * EINVAL if a trial has begun already, or none has. */
int fluxion_ext_begin_trial (reapi_cli_ctx_t *ctx);
int fluxion_ext_end_trial (reapi_cli_ctx_t *ctx);

/* Puts slots of a job on a rank of a graph with pools, whether or not they fit; makes the job if it is new. The node may then
 * be overcharged: it counts as full. A type of which the node has no pool counts as a pool of size 0.
 *   {"label":"a","rank":3,"count":2,"with":{"cpu":1000,"pods":1},"end":"never" | "eventually" | SECOND}
 *   with "tenant":17 or "guest":true as in a request */
int fluxion_ext_charge (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *charge);

/* Gives back count slots of a label that a job has on a rank; with its last slot the job ends. ENOENT if it has fewer. */
int fluxion_ext_release (reapi_cli_ctx_t *ctx, uint64_t jobid, uint32_t rank, const char *label, uint64_t count);

/* Sets the size of a node's pool, making it if need be. Units in use stay in use, even if they are more. */
int fluxion_ext_resize (reapi_cli_ctx_t *ctx, uint32_t rank, const char *type, uint64_t size);

/* Puts ranks (an idset; unknown ones are passed over) into a part of a level, and out of the one that they are in; NULL or "":
 * into none. Jobs keep their nodes. EINVAL if the level has no name, or the graph no pools. */
int fluxion_ext_set_part (reapi_cli_ctx_t *ctx, const char *level, const char *ranks, const char *part);

/* The parts of a level, with the units that are free now on nodes that are up; none if no node is in one:
 *   {"level":"rack","parts":[{"part":"/c0/rack0","ranks":"0-31","free":{"cpu":128000}}]} */
int fluxion_ext_parts (reapi_cli_ctx_t *ctx, const char *level, char **json);

/* Removes a node, also with jobs on it: their slots there vanish from them; a job that had all of its slots there ends. */
int fluxion_ext_remove_rank (reapi_cli_ctx_t *ctx, uint32_t rank);

/* The ranks, as an idset, on which at least one slot of some shape of the request fits once all jobs that have an end have
 * ended. Honours constraints and status; of parts, for slots that are all to have one, those that then have room for each
 * shape. Requests for pools only. */
int fluxion_ext_eligible (reapi_cli_ctx_t *ctx, const char *jobspec, char **ranks);

/* The reasons for which a request does not fit, shape by shape as if each were alone. Requests for pools only.
 *   {"shapes":[{"label":"0","wanted":4,"now":S,"idle":S}]}; `now` heeds status, `idle` is the machine without jobs and all up
 *   S = {"nodes":2,"room":3,"pools":[{"type":"cpu","per_slot":1000,"short_nodes":1,"short":"7",
 *                                      "free":3500,"largest":3000}]}
 *   nodes considered (with "apart":1, one of them has slots that those of the request must not be with, and counts for nothing
 *   else), the number of slots that have room; per pool type the units of one slot, the number of nodes too short of it for one
 *   slot, and their ranks (an idset), the free units of all nodes together, and of the node that has most. For a shape under
 *   rules of levels, for each of them "levels":[{"level":"rack","parts":8,"largest":28,"part":"/c0/rack0"}]: parts with such a
 *   node, slots that fit in the part that has most room, and its name (left out if none fits). With max_skew also
 *   "even":{"room":23,"least":2,"part":"/c0/rack7"}: slots that fit in all parts together, slots that fit in the part that has
 *   least room, of those that count, and its name. For slots of several shapes that are to be in one part also
 *   "together":{"wanted":4,"largest":3,"part":"/c0/rack0"}: the number of these slots, and the number of them that fit in the
 *   part that has most room. */
int fluxion_ext_explain (reapi_cli_ctx_t *ctx, const char *jobspec, char **json);

/* The number of steps that the searches of the last match, move, explanation or question for eligible ranks took. A step is a
 * look at a node, a vertex, an instant or a pipe of a flow: some tens of nanoseconds. With the option search_budget a call that
 * needs more steps than that ends with EAGAIN, and takes nothing. is_earliest is false if the search gave up at some instant
 * before the start that was found, or passed over some: an earlier start may be possible. So the answer of a reservation is
 * `at` of the match, and is_earliest. A caller that plans by starts may pass it over: fluxion_ext_move searches again once
 * something has come free. */
int fluxion_ext_effort (reapi_cli_ctx_t *ctx, uint64_t *steps, bool *is_earliest);

/* The pools of a node: {"rank":0,"pools":[{"type":"cpu","size":4000,"used":1500}]}. */
int fluxion_ext_usage (reapi_cli_ctx_t *ctx, uint32_t rank, char **json);

#ifdef __cplusplus
}
#endif

#endif /* FLUXION_SYS_REAPI_CLI_H */
