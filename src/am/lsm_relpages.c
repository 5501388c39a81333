/*-------------------------------------------------------------------------
 *
 * lsm_relpages.c
 *	  pg_class.relpages after ANALYZE, index builds and rewrites.
 *
 * VACUUM stores the pages of the table.  ANALYZE, index builds, CLUSTER and
 * VACUUM FULL store what the server takes for that, the logical size:
 * lsm_relation_size() cannot tell them from BRIN, which needs it.  So tables that
 * were sampled, read for an index or rewritten are remembered, and if that has
 * changed their relpages, the pages are stored in its place before the
 * transaction commits.
 *
 * What ANALYZE and index builds store survives a rollback, as in heap; it is the
 * logical size then, until the next of these commands.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "lsm_am.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

/* A table whose relpages this transaction may store. */
typedef struct LsmRelpages
{
	Oid			relid;
	int32		before;			/* its relpages when it was remembered */
} LsmRelpages;

static List *lsm_relpages_tables;	/* LsmRelpages *, in TopTransactionContext */

/* Remember a table that is sampled, read for an index, or rewritten. */
void
lsm_relpages_remember(Relation rel)
{
	MemoryContext caller;
	LsmRelpages *table;
	ListCell   *cell;

	foreach(cell, lsm_relpages_tables)
		if (((LsmRelpages *) lfirst(cell))->relid == RelationGetRelid(rel))
			return;
	caller = MemoryContextSwitchTo(TopTransactionContext);
	table = palloc(sizeof(LsmRelpages));
	table->relid = RelationGetRelid(rel);
	table->before = rel->rd_rel->relpages;
	lsm_relpages_tables = lappend(lsm_relpages_tables, table);
	MemoryContextSwitchTo(caller);
}

/*
 * Store the pages, if the server has stored the logical size.  That it has not
 * changed does not say that it was not stored again, after a rollback.
 */
static void
lsm_relpages_correct(Relation rel, int32 before)
{
	int32		stored = rel->rd_rel->relpages;
	BlockNumber pages = 0;

	if (rel->rd_rel->reltuples < 0 ||
		(stored == before && (BlockNumber) stored != RelationGetNumberOfBlocks(rel)))
		return;
	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) > 0)
		pages = (BlockNumber) Min(lsm_vacuum_pages(rel), MaxBlockNumber);
	if (pages != (BlockNumber) stored)
		lsm_compat_update_relpages(rel, pages);
}

void
lsm_relpages_before_commit(void)
{
	ListCell   *cell;

	if (lsm_relpages_tables == NIL)
		return;
	/* the transaction's last changes of pg_class are to be seen */
	CommandCounterIncrement();
	foreach(cell, lsm_relpages_tables)
	{
		LsmRelpages *table = lfirst(cell);
		Relation	rel;

		/* a child that was only sampled for its parent, or a rollback to a savepoint */
		if (!CheckRelationOidLockedByMe(table->relid, ShareUpdateExclusiveLock, true))
			continue;
		rel = try_relation_open(table->relid, NoLock);
		if (rel == NULL)
			continue;			/* dropped */
		if (lsm_relation_is_lsm(rel))
			lsm_relpages_correct(rel, table->before);
		relation_close(rel, NoLock);
	}
}

void
lsm_relpages_xact_end(void)
{
	lsm_relpages_tables = NIL;
}
