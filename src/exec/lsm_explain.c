/*-------------------------------------------------------------------------
 *
 * lsm_explain.c
 *	  What index scans of our tables have done, in EXPLAIN (ANALYZE, LSM).
 *
 * A table access method is not asked by EXPLAIN about the server's own nodes, but from
 * PostgreSQL 18 on an extension can have an option of its own, and adds to what is shown
 * of a node.  Fetches count for themselves what they change of the backend's counters of
 * the table (lsm_stat.h): only while a statement is explained so, for each of them would
 * cost a little more.
 *
 * What parallel workers do is not counted here; lsm_stat_tables has all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_compat.h"
#include "lsm_exec.h"

#if LSM_EXPLAIN_OPTIONS

#include "access/genam.h"
#include "access/relscan.h"
#include "commands/defrem.h"
#include "lsm_am.h"
#include "lsm_columnscan.h"
#include "nodes/execnodes.h"

static int	lsm_explain_id;
static explain_per_node_hook_type previous_per_node;

static void
lsm_explain_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	static bool on = true;

	if (!defGetBoolean(option))
		return;
	SetExplainExtensionState(es, lsm_explain_id, &on);
	lsm_fetch_counting = true;
}

/* The scan of an index that fetches rows of a table, or NULL. */
static IndexScanDesc
lsm_explain_scan(PlanState *planstate)
{
	switch (nodeTag(planstate))
	{
		case T_IndexScanState:
			return ((IndexScanState *) planstate)->iss_ScanDesc;
		case T_IndexOnlyScanState:
			return ((IndexOnlyScanState *) planstate)->ioss_ScanDesc;
		default:
			return NULL;
	}
}

static void
lsm_explain_node(PlanState *planstate, List *ancestors, const char *relationship,
				 const char *plan_name, ExplainState *es)
{
	IndexScanDesc scan = lsm_explain_scan(planstate);
	const LsmFetchCounters *counters;

	if (previous_per_node)
		previous_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!es->analyze || scan == NULL || scan->xs_heapfetch == NULL ||
		GetExplainExtensionState(es, lsm_explain_id) == NULL ||
		!lsm_relation_is_lsm(scan->heapRelation))
		return;
	counters = lsm_fetch_counters(scan->xs_heapfetch);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainIndentText(es);
		appendStringInfo(es->str, "LSM: rows fetched=" UINT64_FORMAT " records examined=" UINT64_FORMAT
						 " blocks read=" UINT64_FORMAT " ahead=" UINT64_FORMAT "\n",
						 counters->rows, counters->records, counters->blocks_read,
						 counters->blocks_ahead);
	}
	else
	{
		ExplainPropertyUInteger("LSM Rows Fetched", NULL, counters->rows, es);
		ExplainPropertyUInteger("LSM Records Examined", NULL, counters->records, es);
		ExplainPropertyUInteger("LSM Blocks Read", NULL, counters->blocks_read, es);
		ExplainPropertyUInteger("LSM Blocks Read Ahead", NULL, counters->blocks_ahead, es);
	}
	lsm_columnscan_explain_input(&counters->input, es);
	lsm_columnscan_explain_store(counters->store_requests, counters->store_bytes, es);
}

void
lsm_explain_install(void)
{
	lsm_explain_id = GetExplainExtensionId("lsm");
	RegisterExtensionExplainOption("lsm", lsm_explain_option);
	previous_per_node = explain_per_node_hook;
	explain_per_node_hook = lsm_explain_node;
}

#else

void
lsm_explain_install(void)
{
}

#endif
