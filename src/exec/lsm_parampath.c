/*-------------------------------------------------------------------------
 *
 * lsm_parampath.c
 *	  LsmScans for the inner sides of joins.
 *
 * An LsmScan can have values of the outer row in its conditions by column, like any
 * value that is fixed for the scan.  It is begun again for each outer row then, which
 * is worth it if zone maps rule most blocks out each time: if the column follows the
 * order of rows, and there are few outer rows.  For many of them an index is the better
 * way, or a hash join; the planner sees that by the costs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_exec.h"
#include "lsm_predicate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"

/* Offered only if the zone maps leave less than this part of the blocks. */
#define LSM_PARAM_READ			0.2

/* Columns that follow the order of rows less are not looked at (square). */
#define LSM_PARAM_CORRELATION	0.8

/* Going through the equivalence classes that have a column of the table. */
typedef struct LsmParamMember
{
	Expr	   *current;		/* the column that is being looked at */
	List	   *done;
} LsmParamMember;

static bool
lsm_parampath_column_fits(PlannerInfo *root, RelOptInfo *rel, AttrNumber attnum)
{
	return attnum > 0 &&
		lsm_scanpath_correlation(root, rel, attnum) >= LSM_PARAM_CORRELATION;
}

/* See postgres_fdw: one column is taken at each call. */
static bool
lsm_parampath_member(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec,
					 EquivalenceMember *em, void *arg)
{
	LsmParamMember *member = arg;
	Expr	   *expr = em->em_expr;

	if (member->current != NULL)
		return equal(expr, member->current);
	if (list_member(member->done, expr) || !IsA(expr, Var) ||
		((Var *) expr)->varno != (int) rel->relid)
		return false;
	member->current = expr;
	return true;
}

/* The relations that a condition takes values from, if it can be looked at by column. */
static Relids
lsm_parampath_outer(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *restriction)
{
	LsmPredicate *predicate;
	Relids		outer;

	if (!join_clause_is_movable_to(restriction, rel))
		return NULL;
	predicate = lsm_predicate_make(restriction->clause, rel->relid);
	if (predicate == NULL || !predicate->zones ||
		!lsm_parampath_column_fits(root, rel, predicate->condition.attnum))
		return NULL;
	outer = bms_union(restriction->clause_relids, rel->lateral_relids);
	outer = bms_del_members(outer, rel->relids);
	return bms_is_empty(outer) ? NULL : outer;
}

/* Note an outer relation set, once. */
static void
lsm_parampath_note(PlannerInfo *root, RelOptInfo *rel, List *restrictions, List **outers)
{
	ListCell   *cell;

	foreach(cell, restrictions)
	{
		Relids		outer = lsm_parampath_outer(root, rel, lfirst_node(RestrictInfo, cell));
		bool		known = outer == NULL;
		ListCell   *other;

		foreach(other, *outers)
			known = known || bms_equal(lfirst(other), outer);
		if (!known)
			*outers = lappend(*outers, outer);
	}
}

/* Offer a path for each set of outer relations that conditions by column have values of. */
void
lsm_parampath_add(PlannerInfo *root, RelOptInfo *rel)
{
	LsmParamMember member = {NULL, NIL};
	List	   *outers = NIL;
	ListCell   *cell;

	lsm_parampath_note(root, rel, rel->joininfo, &outers);
	while (rel->has_eclass_joins)
	{
		List	   *clauses;

		member.current = NULL;
		clauses = generate_implied_equalities_for_column(root, rel, lsm_parampath_member,
														 &member, rel->lateral_referencers);
		if (member.current == NULL)
			break;
		lsm_parampath_note(root, rel, clauses, &outers);
		member.done = lappend(member.done, member.current);
	}
	foreach(cell, outers)
	{
		ParamPathInfo *param = get_baserel_parampathinfo(root, rel, lfirst(cell));
		LsmScanCost cost;

		lsm_scanpath_conditions(root, rel,
								list_concat_copy(rel->baserestrictinfo, param->ppi_clauses),
								&cost);
		if (cost.read < LSM_PARAM_READ)
			add_path(rel, &lsm_scanpath_make(root, rel, &cost, lfirst(cell), 0)->path);
	}
}
