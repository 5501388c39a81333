/*-------------------------------------------------------------------------
 *
 * lsm_cold_ddl.h
 *	  The option lsm.cold_store in DDL, and what servers may not be altered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_COLD_DDL_H
#define LSM_COLD_DDL_H

#include "lsm.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

extern void lsm_cold_note_change(Oid relid);
extern void lsm_cold_attach(Relation rel, const char *name, bool test);
extern bool lsm_cold_note_segments(Relation rel, Oid serverid);
extern List *lsm_cold_servers_of(Oid relid);
extern void lsm_cold_release_servers(Relation rel, Oid attached);
extern void lsm_cold_tidy(Relation rel);
extern void lsm_cold_pass_stamps(Relation rel);
extern void lsm_cold_forget(Oid relid);
extern void lsm_cold_ddl_committed(void);
extern void lsm_cold_ddl_xact_end(void);
extern void lsm_cold_check_statement(Node *stmt);
extern void lsm_cold_note_copy(Node *stmt);

/* What a statement drops: begun before it runs, ended however it ends, checked if it is done. */
typedef struct LsmColdDrops
{
	MemoryContext context;		/* of the lists */
	List	   *tables;
	List	   *servers;
	struct LsmColdDrops *outer; /* of the statement that it is part of */
} LsmColdDrops;

extern void lsm_cold_drops_begin(LsmColdDrops *drops);
extern void lsm_cold_drops_end(const LsmColdDrops *drops);
extern void lsm_cold_drops_check(const LsmColdDrops *drops, Node *stmt);
extern void lsm_cold_note_drop(Oid class_id, Oid object_id);

#endif							/* LSM_COLD_DDL_H */
